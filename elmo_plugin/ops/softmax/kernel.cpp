// The softmax's loss with its gradient on CPUs. `reference.py` has its definition.
//
// A tile is the logits of some words and some rows. They are computed, turned into exponentials and
// multiplied for the gradient of the hidden vectors while they are in cache. A tile is transposed,
// so that sums over words need no sums within a vector. Exponentials are taken relative to the
// largest logit of the first tile, because that of all tiles is not known yet. Probabilities are
// the same, unless a later logit is so far above it that its exponential could overflow: then the
// rows are computed again. The gradient of the weights follows, once a row's sum is known, from the
// exponentials of a group of rows. No number depends on the number of threads.
#if defined(__x86_64__)

#include "kernels.h"

#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace {

using std::optional;

constexpr int64_t ROWS = 64;              // rows of a tile
constexpr int64_t WORDS = 128;            // words of a tile
constexpr int64_t PART = 64;              // words of a tile whose gradients stay in L1
constexpr int64_t MOST_BLOCKS = 4;        // blocks of ROWS for which a tile of weights is read once
constexpr int64_t DEPTH = 16384;          // bytes of a block of the second factor of a product
constexpr int64_t MOST_NUMBERS = 1 << 27; // exponentials in memory at a time
constexpr float MOST = 40;                // above the reference, far from overflow

// exp(x) for x <= 85, to two units in the last place; 0 below exp(-85).
INLINE inline float exp(float x) {
  const auto [power, r] = Exponential(clip(x, 85));
  float p = 1 / 120.0f + r * (1 / 720.0f);
  p = 1 / 24.0f + r * p;
  p = 1 / 6.0f + r * p;
  p = 0.5f + r * p;
  p = 1 + r * p;
  p = 1 + r * p;
  return x < -85 ? 0 : power * p;
}

// As `product`, in blocks of b that stay in L1.
template <class T>
void blocked_product(
    int64_t n, int64_t m, int64_t k, const T* a, int64_t a_stride, const T* b, int64_t b_stride,
    float* out, int64_t out_stride, bool add) {
  constexpr int64_t columns = 64, depth = DEPTH / columns / sizeof(T);
  for (int64_t j = 0; j < m; j += columns)
    for (int64_t i = 0; i < k; i += depth)
      product(
          n, std::min(columns, m - j), std::min(depth, k - i), a + i, a_stride,
          b + i * b_stride + j * PAIR<T>, b_stride, out + j, out_stride, add || i > 0);
}

INLINE inline float number(float x) { return x; }
INLINE inline float number(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.x} << 16); }

template <class T>
struct Softmax {
  int64_t n, n_words, dim, width; // width: dim with padding
  const float *hidden, *bias, *true_logits;
  const int64_t* hits;
  const T *weight, *weight_t; // (n_words, width), and of each tile (width, WORDS)
  float *loss, *d_true, *d_hidden;
  // Of each block of a group: (words, ROWS), and hidden vectors divided by the sums, (ROWS, width)
  T *exponentials, *scaled;
  float* inverse; // (ROWS) of each block of a group: 1 / sum of exponentials

  int64_t tiles() const { return divide_up(n_words, WORDS); }
  T* tile_of(int64_t block, int64_t tile) const {
    return exponentials + (block * tiles() + tile) * WORDS * ROWS;
  }

  // What is known of a block of rows while words are read.
  struct Block {
    std::vector<T> h; // (width, ROWS), interleaved
    std::vector<float> d_h;
    float reference[ROWS] = {}, top[ROWS];
    double sum[ROWS];
    bool fits = false; // no logit is too far above the reference
  };

  // The losses and the gradient of the hidden vectors of some blocks of rows, from `first` on.
  // `place`: the first one's place in the group. A block's reference is the largest logit of its
  // first tile. If a later logit is too far above it, the block does not fit: it is computed again,
  // with the largest logit as its reference, while blocks that fit stay as they are.
  template <bool gradient>
  void rows(int64_t first, int64_t n_blocks, int64_t place) const {
    std::vector<Block> blocks(n_blocks);
    for (int64_t k = 0; k < n_blocks; ++k) {
      blocks[k].h.resize(width * ROWS);
      if (gradient) blocks[k].d_h.resize(width * ROWS);
      read(first + k * ROWS, blocks[k]);
    }
    std::vector<float> logits(WORDS * ROWS);
    std::vector<T> pairs(gradient && PAIR<T> == 2 ? WORDS * ROWS : 0);
    for (bool all_fit = false, again = false; !all_fit; again = true) {
      for (auto& block : blocks) {
        if (block.fits) continue;
        std::fill_n(block.sum, ROWS, 0.0);
        std::fill_n(block.top, ROWS, 0.0f);
      }
      for (int64_t tile = 0; tile < tiles(); ++tile)
        for (int64_t k = 0; k < n_blocks; ++k) {
          auto& block = blocks[k];
          if (block.fits) continue;
          compute_logits(tile, first + k * ROWS, block.h.data(), logits.data());
          if (tile == 0 && !again) maximum(logits.data(), block.reference);
          T* to = gradient ? tile_of(place + k, tile) : nullptr;
          exponents<gradient>(logits.data(), bias + tile * WORDS, block, to, pairs.data());
          if constexpr (gradient)
            blocked_product(
                width, ROWS, WORDS, weight_t + tile * width * WORDS, WORDS,
                PAIR<T> == 2 ? pairs.data() : to, ROWS, block.d_h.data(), ROWS, tile > 0);
        }
      all_fit = true;
      for (auto& block : blocks) {
        if (block.fits) continue;
        const auto is_too_far = [](float x) { return x > MOST; };
        block.fits = again || std::none_of(block.top, block.top + ROWS, is_too_far);
        for (int64_t r = 0; r < ROWS && !block.fits; ++r) block.reference[r] += block.top[r];
        all_fit = all_fit && block.fits;
      }
    }
    for (int64_t k = 0; k < n_blocks; ++k)
      write<gradient>(first + k * ROWS, blocks[k], place + k);
  }

  void read(int64_t first, Block& block) const {
    for (int64_t r = 0; r < std::min(ROWS, n - first); ++r) {
      const float* from = hidden + (first + r) * dim;
      block.reference[r] = true_logits[first + r];
      for (int64_t p = 0; p < dim; ++p)
        store(&block.h[(p / PAIR<T> * ROWS + r) * PAIR<T> + p % PAIR<T>], from[p]);
    }
  }

  // (WORDS, ROWS), without the bias
  void compute_logits(int64_t tile, int64_t first, const T* h, float* to) const {
    const int64_t word = tile * WORDS, m = std::min(WORDS, n_words - word);
    blocked_product(m, ROWS, width, weight + word * width, width, h, ROWS, to, ROWS, false);
    std::fill(to + m * ROWS, to + WORDS * ROWS, 0.0f);
    for (int64_t r = 0; r < std::min(ROWS, n - first); ++r) {
      const int64_t hit = hits[first + r] - word;
      if (hit >= 0 && hit < WORDS) to[hit * ROWS + r] = -INFINITY;
    }
  }

  // reference_r = max(reference_r, max_w(logit_wr + bias_w)) of the first tile
  void maximum(const float* logits, float* reference) const {
    vectorized([&]() INLINE {
      for (int64_t w = 0; w < WORDS; ++w) {
        const float b = bias[w];
#pragma GCC ivdep
        for (int64_t r = 0; r < ROWS; ++r) {
          const float x = logits[w * ROWS + r] + b;
          reference[r] = x > reference[r] ? x : reference[r];
        }
      }
    });
  }

  // The exponentials of a tile, their sums, and the most that a logit is above the reference.
  template <bool gradient>
  static void exponents(
      const float* logits, const float* bias, Block& block, T* to, T* pairs) {
    const float* reference = block.reference;
    float* top = block.top;
    float part[ROWS] = {};
    vectorized([&]() INLINE {
      for (int64_t w = 0; w < WORDS; w += 2, logits += 2 * ROWS) {
        const float b_0 = bias[w], b_1 = bias[w + 1];
#pragma GCC ivdep
        for (int64_t r = 0; r < ROWS; ++r) {
          const float x_0 = logits[r] + b_0 - reference[r];
          const float x_1 = logits[ROWS + r] + b_1 - reference[r];
          const float x = x_0 > x_1 ? x_0 : x_1;
          top[r] = x > top[r] ? x : top[r];
          const float e_0 = exp(x_0), e_1 = exp(x_1);
          part[r] += e_0 + e_1;
          if constexpr (gradient && PAIR<T> == 2) {
            const uint32_t low = bfloat16_bits(e_0), high = bfloat16_bits(e_1);
            reinterpret_cast<uint32_t*>(pairs)[w / 2 * ROWS + r] = low | high << 16;
            to[w * ROWS + r].x = static_cast<uint16_t>(low);
            to[(w + 1) * ROWS + r].x = static_cast<uint16_t>(high);
          } else if constexpr (gradient) {
            to[w * ROWS + r] = e_0;
            to[(w + 1) * ROWS + r] = e_1;
          }
        }
      }
      for (int64_t r = 0; r < ROWS; ++r) block.sum[r] += part[r];
    });
  }

  template <bool gradient>
  void write(int64_t first, const Block& block, int64_t place) const {
    for (int64_t r = 0; r < ROWS; ++r) {
      const bool real = first + r < n;
      float scale = 0;
      if (real) {
        const float y = true_logits[first + r], e = std::exp(y - block.reference[r]);
        const double total = block.sum[r] + e;
        loss[first + r] = static_cast<float>(block.reference[r] - y + std::log(total));
        if (gradient) d_true[first + r] = static_cast<float>(e / total - 1);
        scale = static_cast<float>(1 / total);
      }
      if constexpr (gradient) {
        inverse[place * ROWS + r] = scale;
        T* to = scaled + (place * ROWS + r / PAIR<T> * PAIR<T>) * width + r % PAIR<T>;
        for (int64_t p = 0; p < dim; ++p) {
          store(to + p * PAIR<T>, real ? hidden[(first + r) * dim + p] * scale : 0);
          if (real) d_hidden[(first + r) * dim + p] = block.d_h[p * ROWS + r] * scale;
        }
      }
    }
  }

  // Adds what the first `n_blocks` blocks of the group add to the gradients of a tile of words.
  void words(int64_t tile, int64_t n_blocks, float* d_weight, float* d_bias, bool add) const {
    for (int64_t first = 0; first < WORDS; first += PART) {
      const int64_t word = tile * WORDS + first, m = std::min(PART, n_words - word);
      for (int64_t k = 0; k < n_blocks && m > 0; ++k) {
        const T* e = tile_of(k, tile) + first * ROWS;
        blocked_product(
            m, width, ROWS, e, ROWS, scaled + k * ROWS * width, width, d_weight + word * width,
            width, add || k > 0);
        add_bias(e, m, inverse + k * ROWS, d_bias + word);
      }
    }
  }

  static void add_bias(const T* e, int64_t m, const float* inverse, float* to) {
    vectorized([&]() INLINE {
      for (int64_t w = 0; w < m; ++w, e += ROWS) {
        constexpr int64_t lanes = 16;
        float part[lanes] = {}, sum = 0;
        for (int64_t first = 0; first < ROWS; first += lanes)
#pragma GCC ivdep
          for (int64_t r = 0; r < lanes; ++r) part[r] += number(e[first + r]) * inverse[first + r];
#pragma omp simd reduction(+ : sum)
        for (int64_t r = 0; r < lanes; ++r) sum += part[r];
        to[w] += sum;
      }
    });
  }
};

template <class T>
Tensor transposed_tiles(const Tensor& weight) {
  const int64_t n = weight.size(0), width = weight.size(1), tiles = divide_up(n, WORDS);
  Tensor out = n % WORDS ? zeros<T>({tiles, width, WORDS}) : scratch<T>({tiles, width, WORDS});
  const T* from = weight.const_data_ptr<T>();
  T* to = out.mutable_data_ptr<T>();
  constexpr int64_t STEP = 16;
  at::parallel_for(0, tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t word = begin * WORDS; word < std::min(n, end * WORDS); word += STEP)
      for (int64_t p = 0; p < width; ++p)
        for (int64_t w = word; w < std::min(n, word + STEP); ++w)
          to[(w / WORDS * width + p) * WORDS + w % WORDS] = from[w * width + p];
  });
  return out;
}

// Blocks of rows that a thread computes while a tile of words is in cache: as many as possible, but
// so that threads do not wait for each other.
int64_t blocks_at_once(int64_t blocks, int64_t threads) {
  int64_t best = 1, least = blocks;
  for (int64_t k = 1; k <= MOST_BLOCKS; ++k) {
    const int64_t time = divide_up(blocks, k * threads) * k;
    if (time <= least) best = k, least = time;
  }
  return best;
}

using Outputs = std::tuple<Tensor, Tensor, Tensor, Tensor>;

template <class T>
Outputs softmax_loss(
    const Tensor& hidden, const Tensor& hits, const Tensor& weight, const Tensor& bias,
    const Tensor& true_logits, const optional<Tensor>& d_weight) {
  const int64_t n = hidden.size(0), dim = hidden.size(1);
  const int64_t n_words = weight.size(0), width = weight.size(1);
  TORCH_CHECK(
      weight.is_contiguous() && width >= dim && width % 32 == 0,
      "weight: expected a contiguous tensor of at least ", dim, " columns, a multiple of 32, found ",
      weight.sizes());
  TORCH_CHECK(
      hits.size(0) == n && hits.is_contiguous(), "hits: expected ", n, " numbers, found ",
      hits.sizes());
  const int64_t tiles = divide_up(n_words, WORDS);
  Tensor loss = scratch<float>({n}), d_true, d_hidden, d_bias;
  Tensor weight_t, exponentials, scaled, inverse;
  std::vector<float> padded_bias(tiles * WORDS, -INFINITY);
  std::copy_n(floats(bias, {n_words}, "bias"), n_words, padded_bias.data());
  Softmax<T> s{
      .n = n,
      .n_words = n_words,
      .dim = dim,
      .width = width,
      .hidden = floats(hidden, {n, dim}, "hidden"),
      .bias = padded_bias.data(),
      .true_logits = floats(true_logits, {n}, "true_logits"),
      .hits = hits.const_data_ptr<int64_t>(),
      .weight = weight.const_data_ptr<T>(),
      .loss = loss.mutable_data_ptr<float>(),
  };
  const auto for_each = [](int64_t number, const auto& work) {
    at::parallel_for(0, number, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) work(k);
      at::native::cpublas::brgemm_release();
    });
  };
  const int64_t blocks = divide_up(n, ROWS), threads = at::get_num_threads();
  const int64_t at_once = blocks_at_once(blocks, threads);
  const auto for_each_rows = [&](int64_t first, int64_t last, const auto& work) {
    for_each(divide_up(last - first, at_once), [&](int64_t k) {
      work(first + k * at_once, std::min(at_once, last - first - k * at_once));
    });
  };
  if (!d_weight) {
    for_each_rows(0, blocks, [&](int64_t first, int64_t number) {
      s.template rows<false>(first * ROWS, number, 0);
    });
    return {loss, d_true, d_hidden, d_bias};
  }
  floats(*d_weight, {n_words, width}, "d_weight");
  const int64_t group = std::clamp<int64_t>(
      MOST_NUMBERS / (tiles * WORDS * ROWS), 1, std::min(blocks, at_once * threads));
  d_true = scratch<float>({n});
  d_hidden = scratch<float>({n, dim});
  d_bias = zeros<float>({n_words});
  weight_t = transposed_tiles<T>(weight);
  exponentials = scratch<T>({group, tiles * WORDS, ROWS});
  scaled = zeros<T>({group, ROWS, width});
  inverse = scratch<float>({group, ROWS});
  s.weight_t = weight_t.const_data_ptr<T>();
  s.d_true = d_true.mutable_data_ptr<float>();
  s.d_hidden = d_hidden.mutable_data_ptr<float>();
  s.exponentials = exponentials.mutable_data_ptr<T>();
  s.scaled = scaled.mutable_data_ptr<T>();
  s.inverse = inverse.mutable_data_ptr<float>();
  float* of_weight = d_weight->mutable_data_ptr<float>();
  float* of_bias = d_bias.mutable_data_ptr<float>();
  for (int64_t start = 0; start < blocks; start += group) {
    const int64_t end = std::min(blocks, start + group);
    for_each_rows(start, end, [&](int64_t first, int64_t number) {
      s.template rows<true>(first * ROWS, number, first - start);
    });
    for_each(tiles, [&](int64_t tile) {
      s.words(tile, end - start, of_weight, of_bias, start > 0);
    });
  }
  return {loss, d_true, d_hidden, d_bias};
}

Outputs softmax_loss_of_any_type(
    const Tensor& hidden, const Tensor& hits, const Tensor& weight, const Tensor& bias,
    const Tensor& true_logits, const optional<Tensor>& d_weight) {
  const auto f = weight.scalar_type() == at::kFloat ? softmax_loss<float> : softmax_loss<BFloat16>;
  return f(hidden, hits, weight, bias, true_logits, d_weight);
}
} // namespace

TORCH_LIBRARY_FRAGMENT(elmo_plugin, library) {
  library.def(
      "softmax_loss(Tensor hidden, Tensor hits, Tensor weight, Tensor bias, Tensor true_logits, "
      "Tensor(a!)? d_weight) -> (Tensor, Tensor, Tensor, Tensor)",
      softmax_loss_of_any_type);
}
#endif
