// The softmax's loss with its gradient on CPUs. `sampled_softmax_loss.py` has its definition.
//
// The logits of a tile, some words and some rows, are computed, turned into exponentials and
// multiplied for the gradient of the hidden vectors while they are in cache. They are transposed, so
// that sums over words need no sums within a vector. An exponential is taken against a reference
// for its row instead of the largest logit, which is not known yet: the largest logit of the first
// tile. Both give the same probability as long as nothing overflows, and if a logit is so far above
// the reference, its rows are computed again. Of all exponentials of a group of rows, the gradient of
// the weights is one product. Numbers do not depend on the number of threads.
#if defined(__x86_64__)

#include "kernels.h"

#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

namespace {

using std::optional;

constexpr int64_t ROWS = 64;           // rows of a tile
constexpr int64_t WORDS = 256;         // words of a tile
constexpr int64_t GROUP = 128;         // rows of one product for the gradient of the weights
constexpr int64_t GROUPS = 1;          // of a thread at a time
constexpr float MOST = 40;             // above the reference: exp(40) * 10^9 is far from overflow

// exp(x) for x <= 2 * MOST, to two units in the last place; 0 if it is less than 1e-37.
INLINE inline float exp(float x) {
  constexpr float to_integer = 12582912; // 1.5 * 2^23
  const float y = x > -85 ? x : (x != x ? x : -85);
  const float n = (y * 1.44269504f + to_integer) - to_integer;
  const float r = (y - n * 0.693145752f) - n * 1.42860677e-6f;
  float p = 1 / 120.0f + r * (1 / 720.0f);
  p = 1 / 24.0f + r * p;
  p = 1 / 6.0f + r * p;
  p = 0.5f + r * p;
  p = 1 + r * p;
  p = 1 + r * p;
  const float power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -85 ? 0 : power * p;
}

INLINE inline uint32_t bits(float x) { // of its rounding to bfloat16
  BFloat16 y;
  store(&y, x);
  return y.x;
}

template <class T>
struct Softmax {
  int64_t n, n_words, dim, width; // width: dim with padding
  const float *hidden, *bias, *true_logits;
  const int64_t* hits;
  const T *weight, *weight_t; // (n_words, width), and of each tile (width, WORDS)
  float *loss, *d_true, *d_hidden;
  T *exponentials, *scaled; // of the rows of a group: (words, rows), and (rows, width) interleaved
  float* inverse;           // 1 / sum of exponentials of the rows of a group

  int64_t tiles() const { return (n_words + WORDS - 1) / WORDS; }

  // The loss and the gradient of the hidden vectors of ROWS rows from `first` on, or of fewer at the
  // end. `place`: of these rows in the group, which has `group` rows.
  template <bool gradient>
  void rows(int64_t first, int64_t place, int64_t group) const {
    const int64_t count = std::min(ROWS, n - first);
    std::vector<T> h(width * ROWS), pairs(gradient && PAIR<T> == 2 ? WORDS * ROWS : 0);
    std::vector<float> logits(WORDS * ROWS), d_h(gradient ? width * ROWS : 0);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t p = 0; p < dim; ++p)
        store(&h[(p / PAIR<T> * ROWS + r) * PAIR<T> + p % PAIR<T>], hidden[(first + r) * dim + p]);
    float reference[ROWS], top[ROWS];
    double sum[ROWS];
    for (int64_t r = 0; r < ROWS; ++r) reference[r] = r < count ? true_logits[first + r] : 0;
    for (bool fits = false, known = false; !fits; known = true) {
      std::fill_n(sum, ROWS, 0.0);
      std::fill_n(top, ROWS, 0.0f);
      for (int64_t tile = 0; tile < tiles(); ++tile) {
        const int64_t word = tile * WORDS, m = std::min(WORDS, n_words - word);
        product(
            m, ROWS, width, weight + word * width, width, h.data(), ROWS, logits.data(), ROWS,
            false);
        std::fill(logits.begin() + m * ROWS, logits.end(), 0.0f);
        for (int64_t r = 0; r < count; ++r) {
          const int64_t hit = hits[first + r] - word;
          if (hit >= 0 && hit < WORDS) logits[hit * ROWS + r] = -INFINITY;
        }
        if (!known && tile == 0) maximum(logits.data(), m, reference);
        T* to = gradient ? exponentials + word * group + place : nullptr;
        exponents<gradient>(logits.data(), bias + word, reference, top, sum, to, group, pairs.data());
        if constexpr (gradient) {
          const T* factor = PAIR<T> == 2 ? pairs.data() : to;
          product(
              width, ROWS, WORDS, weight_t + tile * width * WORDS, WORDS, factor,
              PAIR<T> == 2 ? ROWS : group, d_h.data(), ROWS, tile > 0);
        }
      }
      fits = true;
      for (int64_t r = 0; r < ROWS; ++r) {
        if (top[r] > MOST && !known) fits = false;
        if (!known) top[r] = reference[r] + top[r];
      }
      if (!fits) std::copy_n(top, ROWS, reference);
    }
    for (int64_t r = 0; r < count; ++r) {
      const float y = true_logits[first + r], e = std::exp(y - reference[r]);
      const double total = sum[r] + e;
      loss[first + r] = static_cast<float>(reference[r] - y + std::log(total));
      if constexpr (gradient) {
        inverse[place + r] = static_cast<float>(1 / total);
        d_true[first + r] = static_cast<float>(e / total - 1);
      }
    }
    if constexpr (gradient) {
      std::fill(inverse + place + count, inverse + place + ROWS, 0.0f);
      for (int64_t r = 0; r < ROWS; ++r) {
        const float scale = inverse[place + r];
        const int64_t row = place + r;
        T* to = scaled + row / PAIR<T> * width * PAIR<T> + row % PAIR<T>;
        for (int64_t p = 0; p < dim; ++p) {
          const float x = r < count ? hidden[(first + r) * dim + p] : 0;
          store(to + p * PAIR<T>, x * scale);
          if (r < count) d_hidden[(first + r) * dim + p] = d_h[p * ROWS + r] * scale;
        }
      }
    }
  }

  // reference_r = max(reference_r, max_w(logit_wr + bias_w))
  void maximum(const float* logits, int64_t m, float* reference) const {
    const float* b = bias;
    vectorized([&]() INLINE {
      for (int64_t w = 0; w < m; ++w)
#pragma GCC ivdep
        for (int64_t r = 0; r < ROWS; ++r) {
          const float x = logits[w * ROWS + r] + b[w];
          reference[r] = x > reference[r] ? x : reference[r];
        }
    });
  }

  // The exponentials of a tile, their sums, and the most that a logit is above the reference.
  template <bool gradient>
  static void exponents(
      const float* logits, const float* bias, const float* reference, float* top, double* sum,
      T* to, int64_t stride, T* pairs) {
    float part[ROWS] = {};
    vectorized([&]() INLINE {
      for (int64_t w = 0; w < WORDS; w += 2, logits += 2 * ROWS, to += 2 * stride) {
        const float b_0 = bias[w], b_1 = bias[w + 1];
#pragma GCC ivdep
        for (int64_t r = 0; r < ROWS; ++r) {
          const float x_0 = logits[r] + b_0 - reference[r];
          const float x_1 = logits[ROWS + r] + b_1 - reference[r];
          const float x = x_0 > x_1 ? x_0 : x_1;
          top[r] = x > top[r] ? x : top[r];
          const float e_0 = exp(clip(x_0, 100)), e_1 = exp(clip(x_1, 100));
          part[r] += e_0 + e_1;
          if constexpr (gradient && PAIR<T> == 2) {
            const uint32_t low = bits(e_0), high = bits(e_1);
            reinterpret_cast<uint32_t*>(pairs)[w / 2 * ROWS + r] = low | high << 16;
            to[r].x = static_cast<uint16_t>(low);
            to[stride + r].x = static_cast<uint16_t>(high);
          } else if constexpr (gradient) {
            to[r] = e_0;
            to[stride + r] = e_1;
          }
        }
      }
      for (int64_t r = 0; r < ROWS; ++r) sum[r] += part[r];
    });
  }

  // Adds the gradients of a tile of words, of which `count` rows of a group have exponentials.
  void words(
      int64_t tile, int64_t count, int64_t group, float* d_weight, float* d_bias, bool add) const {
    const int64_t word = tile * WORDS, m = std::min(WORDS, n_words - word);
    const T* e = exponentials + word * group;
    for (int64_t first = 0; first < count; first += GROUP, add = true)
      product(
          m, width, std::min(GROUP, count - first), e + first, group, scaled + first * width, width,
          d_weight + word * width, width, add);
    vectorized([&]() INLINE {
      for (int64_t w = 0; w < m; ++w, e += group) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t r = 0; r < count; ++r) sum += static_cast<float>(e[r]) * inverse[r];
        d_bias[word + w] += sum;
      }
    });
  }
};

template <class T>
Tensor transposed_tiles(const Tensor& weight) {
  const int64_t n = weight.size(0), width = weight.size(1), tiles = (n + WORDS - 1) / WORDS;
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
  TORCH_CHECK(hits.size(0) == n && hits.is_contiguous(), "hits: expected ", n, " found ", hits.sizes());
  const int64_t tiles = (n_words + WORDS - 1) / WORDS;
  Tensor loss = scratch<float>({n}), d_true, d_hidden, d_bias, weight_t, exponentials, scaled, inverse;
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
  if (!d_weight) {
    for_each((n + ROWS - 1) / ROWS, [&](int64_t k) { s.template rows<false>(k * ROWS, 0, 0); });
    return {loss, d_true, d_hidden, d_bias};
  }
  floats(*d_weight, {n_words, width}, "d_weight");
  const int64_t all = (n + ROWS - 1) / ROWS * ROWS;
  const int64_t group = std::min(all, at::get_num_threads() * GROUPS * GROUP);
  d_true = scratch<float>({n});
  d_hidden = scratch<float>({n, dim});
  d_bias = zeros<float>({n_words});
  weight_t = transposed_tiles<T>(weight);
  exponentials = scratch<T>({tiles * WORDS, group});
  scaled = zeros<T>({group, width});
  inverse = scratch<float>({group});
  s.weight_t = weight_t.const_data_ptr<T>();
  s.d_true = d_true.mutable_data_ptr<float>();
  s.d_hidden = d_hidden.mutable_data_ptr<float>();
  s.exponentials = exponentials.mutable_data_ptr<T>();
  s.scaled = scaled.mutable_data_ptr<T>();
  s.inverse = inverse.mutable_data_ptr<float>();
  float* of_weight = d_weight->mutable_data_ptr<float>();
  float* of_bias = d_bias.mutable_data_ptr<float>();
  for (int64_t first = 0; first < all; first += group) {
    const int64_t count = std::min(group, all - first);
    for_each(count / ROWS, [&](int64_t k) {
      s.template rows<true>(first + k * ROWS, k * ROWS, group);
    });
    for_each(tiles, [&](int64_t tile) {
      s.words(tile, count, group, of_weight, of_bias, first > 0);
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
