// The recurrence of `ProjectedLSTM` on CPUs. `reference.py` is its definition, and
// `kernel.py` packs and quantizes the weights.
//
// A task is one direction of some rows. Rows do not depend on each other, so no thread waits for
// another before the end, and a row's numbers depend neither on the other rows nor on the number of
// threads. For each step and each block of units, the products, the cell and the clips follow one
// another while the numbers are in cache. The products are PyTorch's `brgemm`, oneDNN's
// kernel for the CPU; the rest is compiled for AVX2 and AVX-512. On CPUs other than x86-64 the file is
// empty, because `brgemm` would be slow there.
#if defined(__x86_64__)

#include "kernels.h"

#include <ATen/ops/sum.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace {

using std::optional;

constexpr int64_t BLOCK = 64;        // units, or columns, of a block of packed weights
constexpr int64_t GATES = 4 * BLOCK; // columns of a block of gates: i, j, f, o
constexpr int64_t KEPT = 5 * BLOCK;  // what a row keeps of a block for the backward pass: also c
constexpr int64_t CHUNK = 32;        // rows of one product, so that its factors fit in L1
constexpr int64_t MIN_ROWS = 8;      // minimum rows per task, because each task reads all weights
constexpr int64_t INPUT_ROWS = 128;  // rows of input gates per product

constexpr int64_t blocks_of(int64_t n) { return divide_up(n, BLOCK); }

// ---- Loops over units ----

// exp(x) - 1 for |x| <= 87, to two units in the last place: 2^n (e^r - 1) + (2^n - 1).
INLINE inline float exp_minus_1(float x) {
  const auto [power, r] = Exponential(x);
  float p = 1 / 720.0f + r * (1 / 5040.0f);
  p = 1 / 120.0f + r * p;
  p = 1 / 24.0f + r * p;
  p = 1 / 6.0f + r * p;
  p = 0.5f + r * p;
  return power * (r + r * r * p) + (power - 1);
}

INLINE inline float sigmoid(float x) { return 1 / (2 + exp_minus_1(clip(-x, 87))); }

INLINE inline float tanh(float x) {
  float e = exp_minus_1(2 * clip(x, 10));
  return e / (e + 2);
}

// ---- Products ----

// A factor of int8 products: a row of activations, or a block of weights. Numbers are stored as
// q = round(x / scale) from -127 to 127: a row's as bytes q + 128, with a scale of the row behind
// them, and a block's as q, with scales of its columns and 128 times their sums of q behind them.
using Byte = uint8_t;

// Size of what stands behind the numbers: of a row, in numbers, and of a block, in rows of weights.
template <class T>
constexpr int64_t BEHIND_ROW = std::is_same_v<T, Byte> ? 64 : 0;
template <class T>
constexpr int64_t BEHIND_BLOCK = std::is_same_v<T, Byte> ? 8 : 0;

// Weights of shape (2, blocks, parts, K, BLOCK), whose rows are interleaved in pairs in bf16 and by
// four in int8. There, K includes `BEHIND_BLOCK` rows.
template <class T>
struct Packed {
  using Number = std::conditional_t<std::is_same_v<T, Byte>, int8_t, T>;
  const Number* data = nullptr;
  int64_t blocks = 0, parts = 0, k = 0;

  Packed(
      const Tensor& x, int64_t direction, int64_t least_k, int64_t columns, int64_t n_parts = 1) {
    blocks = blocks_of(columns), parts = n_parts;
    TORCH_CHECK(
        x.dim() == 5 && x.size(0) == 2 && x.size(1) == blocks && x.size(2) == n_parts &&
            x.size(3) >= least_k + BEHIND_BLOCK<T> && x.size(3) % 2 == 0 && x.size(4) == BLOCK &&
            x.is_contiguous(),
        "packed weights: expected shape (2, ", blocks, ", ", n_parts, ", at least ",
        least_k + BEHIND_BLOCK<T>, ", ", BLOCK, "), found ", x.sizes());
    k = x.size(3) - BEHIND_BLOCK<T>;
    data = x.const_data_ptr<Number>() + direction * blocks * parts * x.size(3) * BLOCK;
  }

  int64_t row() const { return k + BEHIND_ROW<T>; } // size of a row of the other factor

  const Number* at(int64_t block, int64_t part = 0) const {
    return data + (block * parts + part) * (k + BEHIND_BLOCK<T>) * BLOCK;
  }
};

// out = a w, or out += a w. Shapes: a (rows, k), w (k, BLOCK), out (rows, BLOCK).
template <class T>
void product(
    int64_t rows, int64_t k, const T* a, int64_t a_stride, const T* w, float* out,
    int64_t out_stride, bool add) {
  product(rows, BLOCK, k, a, a_stride, w, BLOCK, out, out_stride, add);
}

// The same in int8, for at most CHUNK rows.
void product(
    int64_t rows, int64_t k, const Byte* a, int64_t a_stride, const int8_t* w, float* out,
    int64_t out_stride, bool add) {
  int32_t sums[CHUNK * BLOCK];
  at::native::cpublas::brgemm(rows, BLOCK, k, a_stride, BLOCK, BLOCK, false, a, w, sums);
  const auto* scales = reinterpret_cast<const float*>(w + k * BLOCK);
  const auto* offsets = reinterpret_cast<const int32_t*>(scales + BLOCK);
  vectorized([&]() INLINE {
    for (int64_t r = 0; r < rows; ++r, out += out_stride) {
      const float scale = *reinterpret_cast<const float*>(a + r * a_stride + k);
      const int32_t* from = sums + r * BLOCK;
#pragma GCC ivdep
      for (int64_t u = 0; u < BLOCK; ++u)
        out[u] = (add ? out[u] : 0) + scale * scales[u] * static_cast<float>(from[u] - offsets[u]);
    }
  });
}

// Store n numbers as a row of k int8 numbers, and what is lost by this in `rest`, if given.
INLINE inline void quantize(const float* from, int64_t n, int64_t k, Byte* to, float* rest) {
  int32_t most = 0; // the bits of the largest |x|, with NaN the largest
  for (int64_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<int32_t>(from[i]) & 0x7fffffff);
  const float scale = std::bit_cast<float>(most) / 127;
  const float inverse = scale >= FLT_MIN ? 1 / scale : 0; // that of a smaller one may be infinite
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float rounded = from[i] * inverse + TO_INTEGER;
    to[i] = static_cast<Byte>(std::bit_cast<int32_t>(rounded) + 128);
    if (rest) rest[i] = from[i] - (rounded - TO_INTEGER) * scale;
  }
  *reinterpret_cast<float*>(to + k) = scale;
}

// Store n numbers as a row of k for products.
template <class T>
void store_row(const float* from, int64_t n, int64_t k, T* to) {
  vectorized([&]() INLINE {
    if constexpr (std::is_same_v<T, Byte>) {
      quantize(from, n, k, to, nullptr);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) store(to + i, from[i]);
    }
  });
}

// ---- The scan ----

struct Scan {
  const float *inputs, *bias;
  float *outputs, *c, *h;
  float* kept = nullptr; // for the backward pass
  void* kept_m = nullptr;
  int64_t n_steps, n_rows, input_dim, dim, projection_dim;
  float cell_clip, proj_clip;
  at::IntArrayRef batch_sizes;
};

// Every `stride`-th row of one direction, from `first_row` on, which balances rows sorted by length.
struct Rows {
  int64_t n_steps, n_rows, direction, first_row, stride;

  int64_t count(int64_t of) const { return std::max<int64_t>(0, divide_up(of - first_row, stride)); }
  // Places of a row in tensors of shape (2, n_rows, ..) and (2, n_steps, n_rows, ..).
  int64_t at(int64_t r) const { return direction * n_rows + first_row + r * stride; }
  int64_t at(int64_t t, int64_t r) const {
    return (direction * n_steps + t) * n_rows + first_row + r * stride;
  }
  // The place in a tensor of shape (2, n_steps, blocks, n_rows, ..), which is written in its order:
  // that takes a fifth less time than rows of all units, whose blocks are in other pages of memory.
  int64_t at(int64_t t, int64_t block, int64_t blocks, int64_t r) const {
    return ((direction * n_steps + t) * blocks + block) * n_rows + first_row + r * stride;
  }
};

template <class T>
struct Task {
  // What the cells store. In int8, m is quantized when all units of a row are known.
  using M = std::conditional_t<std::is_same_v<T, Byte>, float, T>;

  const Scan& scan;
  Rows place;
  Packed<T> input_weight, recurrent_weight;
  optional<Packed<T>> projection_weight;

  // Number of rows that step t reads.
  int64_t rows(int64_t t) const { return place.count(scan.batch_sizes[t]); }

  // Numbers in a row of m, including padding.
  int64_t hidden() const { return projection_weight ? projection_weight->k : recurrent_weight.k; }

  void run() const {
    const auto& s = scan;
    const int64_t n_rows = place.count(s.n_rows);
    const int64_t n_steps = std::clamp<int64_t>(INPUT_ROWS / n_rows, 1, s.n_steps);
    const int64_t blocks = recurrent_weight.blocks;
    Tensor x = zeros<T>({n_steps * n_rows, input_weight.row()});
    Tensor gates = scratch<float>({blocks, n_steps * n_rows, GATES});
    Tensor h = zeros<T>({n_rows, recurrent_weight.row()}), m = zeros<M>({n_rows, hidden()});
    for (int64_t r = 0; r < n_rows; ++r) store_output(s.h + place.at(r) * s.projection_dim, r, h);
    for (int64_t first = 0; first < s.n_steps; first += n_steps) {
      const int64_t last = std::min(first + n_steps, s.n_steps);
      int64_t n = 0;
      for (int64_t t = first; t < last; ++t)
        for (int64_t r = 0; r < rows(t); ++r, ++n)
          store_row(
              s.inputs + place.at(t, r) * s.input_dim, s.input_dim, input_weight.k,
              x.mutable_data_ptr<T>() + n * input_weight.row());
      add_gates(input_weight, x.const_data_ptr<T>(), n, gates, 0, false);
      for (int64_t t = first, offset = 0; t < last; offset += rows(t), ++t)
        step(t, gates, offset, h, m);
    }
  }

  // Row r of `h`, the factor of the next step's products.
  void store_output(const float* from, int64_t r, Tensor& h) const {
    const auto& w = recurrent_weight;
    store_row(from, scan.projection_dim, w.k, h.mutable_data_ptr<T>() + r * w.row());
  }

  // Gates of n rows, of which those before `offset` are left as they are.
  void add_gates(
      const Packed<T>& w, const T* x, int64_t n, Tensor& gates, int64_t offset, bool add) const {
    for (int64_t block = 0; block < w.blocks; ++block)
      for (int64_t r = 0; r < n; r += CHUNK)
        add_gates(w, x, block, r, std::min(CHUNK, n - r), gates_at(gates, block, offset + r), add);
  }

  void add_gates(
      const Packed<T>& w, const T* x, int64_t block, int64_t r, int64_t n, float* to,
      bool add) const {
    for (int64_t gate = 0; gate < 4; ++gate)
      product(n, w.k, x + r * w.row(), w.row(), w.at(block, gate), to + gate * BLOCK, GATES, add);
  }

  static float* gates_at(Tensor& gates, int64_t block, int64_t r) {
    return gates.mutable_data_ptr<float>() + (block * gates.size(1) + r) * GATES;
  }

  void step(int64_t t, Tensor& gates, int64_t offset, Tensor& h, Tensor& m) const {
    const int64_t n_rows = rows(t);
    M* const to_m = m.mutable_data_ptr<M>();
    for (int64_t block = 0; block < recurrent_weight.blocks; ++block)
      for (int64_t r = 0; r < n_rows; r += CHUNK) {
        const int64_t n = std::min(CHUNK, n_rows - r);
        float* to = gates_at(gates, block, offset + r);
        add_gates(recurrent_weight, h.const_data_ptr<T>(), block, r, n, to, true);
        scan.kept ? cells<true>(t, block, r, n, to, to_m)
                        : cells<false>(t, block, r, n, to, to_m);
      }
    if (projection_weight) project(t, n_rows, to_m);
    for (int64_t r = 0; r < n_rows; ++r) {
      const float* y = scan.outputs + place.at(t, r) * scan.projection_dim;
      std::copy_n(y, scan.projection_dim, scan.h + place.at(r) * scan.projection_dim);
      store_output(y, r, h);
    }
  }

  // The cells of a block of units for n rows from `first` on. `gates`: shape (n, GATES).
  template <bool keep>
  void cells(int64_t t, int64_t block, int64_t first, int64_t n, const float* gates, M* m) const {
    const auto& s = scan;
    const int64_t dim = s.dim, unit = block * BLOCK, units = std::min(BLOCK, dim - unit);
    const float* bias = s.bias + place.direction * 4 * dim + unit;
    const float bound = s.cell_clip;
    float unused[BLOCK];
    vectorized([&]() INLINE {
      for (int64_t r = first; r < first + n; ++r, gates += GATES) {
        float* c = s.c + place.at(r) * dim + unit;
        float* y = projection_weight ? unused : s.outputs + place.at(t, r) * dim + unit;
        M* to = m + r * hidden() + unit;
        float* kept =
            keep ? s.kept + place.at(t, block, recurrent_weight.blocks, r) * KEPT : nullptr;
        M* kept_m = keep ? static_cast<M*>(s.kept_m) + place.at(t, r) * dim + unit : nullptr;
#pragma GCC ivdep
        for (int64_t u = 0; u < units; ++u) {
          const float i = sigmoid(gates[u] + bias[u]);
          const float j = tanh(gates[BLOCK + u] + bias[dim + u]);
          const float f = sigmoid(gates[2 * BLOCK + u] + bias[2 * dim + u]);
          const float o = sigmoid(gates[3 * BLOCK + u] + bias[3 * dim + u]);
          c[u] = clip(f * c[u] + i * j, bound);
          y[u] = o * tanh(c[u]);
          store(to + u, y[u]);
          if constexpr (keep) {
            kept[u] = i;
            kept[BLOCK + u] = j;
            kept[2 * BLOCK + u] = f;
            kept[3 * BLOCK + u] = o;
            kept[4 * BLOCK + u] = c[u];
            store(kept_m + u, y[u]);
          }
        }
      }
    });
  }

  void project(int64_t t, int64_t n_rows, M* m) const {
    const auto& w = *projection_weight;
    const float bound = scan.proj_clip;
    float projected[CHUNK * BLOCK];
    Tensor parts = quantized(n_rows, m);
    for (int64_t block = 0; block < w.blocks; ++block)
      for (int64_t first = 0; first < n_rows; first += CHUNK) {
        const int64_t n = std::min(CHUNK, n_rows - first), column = block * BLOCK;
        const int64_t columns = std::min(BLOCK, scan.projection_dim - column);
        if constexpr (std::is_same_v<T, Byte>) {
          const Byte* a = parts.const_data_ptr<Byte>() + first * w.row();
          product(n, w.k, a, w.row(), w.at(block), projected, BLOCK, false);
          product(n, w.k, a + n_rows * w.row(), w.row(), w.at(block), projected, BLOCK, true);
        } else {
          product(n, w.k, m + first * w.k, w.k, w.at(block), projected, BLOCK, false);
        }
        vectorized([&]() INLINE {
          for (int64_t r = 0; r < n; ++r) {
            const float* from = projected + r * BLOCK;
            float* y = scan.outputs + place.at(t, first + r) * scan.projection_dim + column;
#pragma GCC ivdep
            for (int64_t p = 0; p < columns; ++p) y[p] = clip(from[p], bound);
          }
        });
      }
  }

  // m in two parts, shape (2, n_rows, ..), of which the second is what the first has lost, because
  // most of its numbers are small beside the largest.
  Tensor quantized(int64_t n_rows, M* m) const {
    const auto& w = *projection_weight;
    Tensor parts;
    if constexpr (std::is_same_v<T, Byte>) {
      parts = scratch<Byte>({2, n_rows, w.row()});
      Byte* to = parts.mutable_data_ptr<Byte>();
      vectorized([&]() INLINE {
        for (int64_t r = 0; r < n_rows; ++r, m += w.k, to += w.row()) {
          quantize(m, w.k, w.k, to, m);
          quantize(m, w.k, w.k, to + n_rows * w.row(), nullptr);
        }
      });
    }
    return parts;
  }
};

// Runs `work(rows)` for every task, on all threads.
template <class Work>
void for_each_task(int64_t n_steps, int64_t n_rows, const Work& work) {
  const int64_t most = divide_up(n_rows, MIN_ROWS);
  const int64_t stride = std::clamp<int64_t>(at::get_num_threads() / 2, 1, most);
  at::parallel_for(0, 2 * stride, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task)
      work(Rows{n_steps, n_rows, task / stride, task % stride, stride});
    at::native::cpublas::brgemm_release();
  });
}

using Outputs = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// Returns h of every step, the last c and h of each row, and for the backward pass, if `keep`, m in
// the precision of the products and the gates and c of every step, (2, T, blocks, B, KEPT).
template <class T>
Outputs scan(
    const Tensor& inputs, const Tensor& memory, const Tensor& output, const Tensor& input_weight,
    const Tensor& recurrent_weight, const Tensor& bias, const optional<Tensor>& projection_weight,
    optional<double> cell_clip, optional<double> proj_clip, at::IntArrayRef batch_sizes,
    bool keep) {
  const int64_t n_steps = inputs.size(1), n_rows = inputs.size(2);
  const int64_t dim = memory.size(-1), projection_dim = output.size(-1);
  for (size_t t = 0, most = n_rows; t < batch_sizes.size(); most = batch_sizes[t++])
    TORCH_CHECK(
        batch_sizes[t] >= 0 && batch_sizes[t] <= static_cast<int64_t>(most),
        "batch_sizes: expected numbers that never rise, from at most ", n_rows, " on, found ",
        batch_sizes);
  TORCH_CHECK(
      static_cast<int64_t>(batch_sizes.size()) == n_steps && dim > 0,
      "batch_sizes: expected one number for each of ", n_steps, " steps, found ", batch_sizes);
  TORCH_CHECK(
      projection_weight || projection_dim == dim, "output: expected ", dim,
      " numbers without a projection, found ", projection_dim);
  // Zeros are needed only where rows are not read.
  const auto fresh = n_steps && batch_sizes.back() == n_rows ? scratch<float> : zeros<float>;
  using M = typename Task<T>::M;
  const auto fresh_m = n_steps && batch_sizes.back() == n_rows ? scratch<M> : zeros<M>;
  Tensor outputs = fresh({2, n_steps, n_rows, projection_dim});
  Tensor c = memory.clone(), h = output.clone(), kept, m;
  Scan s{
      .inputs = floats(inputs, {2, n_steps, n_rows, inputs.size(3)}, "inputs"),
      .bias = floats(bias, {2, 4 * dim}, "bias"),
      .outputs = outputs.mutable_data_ptr<float>(),
      .c = const_cast<float*>(floats(c, {2, n_rows, dim}, "memory")),
      .h = const_cast<float*>(floats(h, {2, n_rows, projection_dim}, "output")),
      .n_steps = n_steps,
      .n_rows = n_rows,
      .input_dim = inputs.size(3),
      .dim = dim,
      .projection_dim = projection_dim,
      .cell_clip = static_cast<float>(cell_clip.value_or(INFINITY)),
      .proj_clip = static_cast<float>(proj_clip.value_or(INFINITY)),
      .batch_sizes = batch_sizes,
  };
  if (keep) {
    kept = scratch<float>({2, n_steps, blocks_of(dim), n_rows, KEPT});
    m = fresh_m({2, n_steps, n_rows, dim});
    s.kept = kept.mutable_data_ptr<float>();
    s.kept_m = m.mutable_data_ptr<M>();
  }
  if (n_steps && n_rows)
    for_each_task(n_steps, n_rows, [&](const Rows& rows) {
      Task<T> task{
          s, rows, Packed<T>(input_weight, rows.direction, s.input_dim, dim, 4),
          Packed<T>(recurrent_weight, rows.direction, projection_dim, dim, 4), std::nullopt};
      if (projection_weight)
        task.projection_weight.emplace(*projection_weight, rows.direction, dim, projection_dim);
      task.run();
    });
  return {outputs, c, h, m, kept};
}

// ---- The gradient ----

struct Backward {
  const float *d_outputs, *outputs, *memory, *kept;
  void *d_gates, *d_h; // in the precision of the products
  int64_t dim, projection_dim;
  float cell_clip, proj_clip;
  at::IntArrayRef batch_sizes;
};

template <class T>
struct BackwardTask {
  const Backward& scan;
  Rows place;
  Packed<T> recurrent_weight_t; // its rows are in blocks: i, j, f, o of BLOCK units
  optional<Packed<T>> projection_weight_t;
  float* d_bias;

  void run() const {
    const int64_t n_all = place.count(place.n_rows), width = recurrent_weight_t.blocks * BLOCK;
    const int64_t k = projection_weight_t ? projection_weight_t->k : scan.projection_dim;
    const int64_t blocks = blocks_of(scan.dim);
    Tensor d_y = zeros<float>({n_all, width}), d_y_before = zeros<float>({n_all, width});
    Tensor d_c = zeros<float>({n_all, scan.dim});
    Tensor d_h = zeros<T>({n_all, k}), d_gates = zeros<T>({CHUNK, GATES});
    T* const of_gates = d_gates.mutable_data_ptr<T>();
    float of_m[CHUNK * BLOCK];
    for (int64_t t = place.n_steps - 1; t >= 0; --t, std::swap(d_y, d_y_before)) {
      const int64_t n_rows = place.count(scan.batch_sizes[t]);
      add_output_gradient(t, n_rows, d_y.mutable_data_ptr<float>(), d_h.mutable_data_ptr<T>(), k);
      for (int64_t block = 0; block < blocks; ++block)
        for (int64_t first = 0; first < n_rows; first += CHUNK) {
          const int64_t n = std::min(CHUNK, n_rows - first);
          const T* x = d_h.const_data_ptr<T>() + first * k;
          const float* d_m = d_y.const_data_ptr<float>() + first * width + block * BLOCK;
          if (projection_weight_t)
            product(n, k, x, k, projection_weight_t->at(block), of_m, BLOCK, false);
          cells(
              t, block, first, n, projection_weight_t ? of_m : d_m,
              projection_weight_t ? BLOCK : width, d_c.mutable_data_ptr<float>(), of_gates);
          float* to = d_y_before.mutable_data_ptr<float>() + first * width;
          for (int64_t column = 0; t > 0 && column < recurrent_weight_t.blocks; ++column)
            product(
                n, GATES, of_gates, GATES, recurrent_weight_t.at(column) + block * GATES * BLOCK,
                to + column * BLOCK, width, block > 0);
        }
    }
  }

  // Adds the gradient of the outputs of step t to `d_y`, (n_rows, width), and takes it through the
  // clip; `d_h`, (n_rows, k), is the result in the precision of the products.
  void add_output_gradient(int64_t t, int64_t n_rows, float* d_y, T* d_h, int64_t k) const {
    const int64_t dim = scan.projection_dim, width = recurrent_weight_t.blocks * BLOCK;
    const float bound = scan.proj_clip;
    vectorized([&]() INLINE {
      for (int64_t r = 0; r < n_rows; ++r) {
        const float* d_output = scan.d_outputs + place.at(t, r) * dim;
        const float* h = scan.outputs + place.at(t, r) * dim;
        float* d = d_y + r * width;
        T* to = d_h + r * k;
        T* kept = static_cast<T*>(scan.d_h) + place.at(t, r) * dim;
#pragma GCC ivdep
        for (int64_t p = 0; p < dim; ++p) {
          // A clipped number equals the bound and has no gradient.
          d[p] = (d[p] + d_output[p]) * (std::fabs(h[p]) < bound ? 1.0f : 0.0f);
          store(to + p, d[p]);
          store(kept + p, d[p]);
        }
      }
    });
  }

  // The gradient of `Task::cells`. `d_m`: rows of stride `d_m_stride`; `d_c`, (.., dim), the
  // gradient of the new memory, is replaced by that of the old one; `to`: shape (n, GATES).
  void cells(
      int64_t t, int64_t block, int64_t first, int64_t n, const float* d_m, int64_t d_m_stride,
      float* d_c, T* to) const {
    const int64_t dim = scan.dim, unit = block * BLOCK, units = std::min(BLOCK, dim - unit);
    const int64_t blocks = blocks_of(dim);
    const float bound = scan.cell_clip;
    float* d_b = d_bias + unit;
    vectorized([&]() INLINE {
      for (int64_t r = first; r < first + n; ++r, d_m += d_m_stride, to += GATES) {
        const float* gates = scan.kept + place.at(t, block, blocks, r) * KEPT;
        const float* c = gates + GATES;
        const float* c_before = t ? scan.kept + place.at(t - 1, block, blocks, r) * KEPT + GATES
                                  : scan.memory + place.at(r) * dim + unit;
        float* d_memory = d_c + r * dim + unit;
        T* kept = static_cast<T*>(scan.d_gates) + place.at(t, r) * 4 * dim + unit;
#pragma GCC ivdep
        for (int64_t u = 0; u < units; ++u) {
          const float i = gates[u], j = gates[BLOCK + u];
          const float f = gates[2 * BLOCK + u], o = gates[3 * BLOCK + u];
          const float tanh_c = tanh(c[u]);
          float d = d_memory[u] + d_m[u] * o * (1 - tanh_c * tanh_c);
          d *= std::fabs(c[u]) < bound ? 1.0f : 0.0f;
          const float d_i = d * j * i * (1 - i), d_j = d * i * (1 - j * j);
          const float d_f = d * c_before[u] * f * (1 - f), d_o = d_m[u] * tanh_c * o * (1 - o);
          d_memory[u] = d * f;
          store(to + u, d_i);
          store(to + BLOCK + u, d_j);
          store(to + 2 * BLOCK + u, d_f);
          store(to + 3 * BLOCK + u, d_o);
          store(kept + u, d_i);
          store(kept + dim + u, d_j);
          store(kept + 2 * dim + u, d_f);
          store(kept + 3 * dim + u, d_o);
          d_b[u] += d_i;
          d_b[dim + u] += d_j;
          d_b[2 * dim + u] += d_f;
          d_b[3 * dim + u] += d_o;
        }
        // Weights of zero do not cancel a NaN that another row left in the padding.
        for (T* gate = to; gate < to + GATES; gate += BLOCK)
          std::fill(gate + units, gate + BLOCK, T());
      }
    });
  }
};

// Returns the gradients of all gates and of all outputs before the clip, (2, T, B, ..), in the
// precision of the products, and that of the bias.
template <class T>
std::tuple<Tensor, Tensor, Tensor> scan_backward(
    const Tensor& d_outputs, const Tensor& outputs, const Tensor& memory, const Tensor& kept,
    const Tensor& recurrent_weight_t, const optional<Tensor>& projection_weight_t,
    optional<double> cell_clip, optional<double> proj_clip, at::IntArrayRef batch_sizes) {
  const int64_t n_steps = outputs.size(1), n_rows = outputs.size(2);
  const int64_t dim = memory.size(-1), projection_dim = outputs.size(-1);
  TORCH_CHECK(static_cast<int64_t>(batch_sizes.size()) == n_steps, "batch_sizes: found ", batch_sizes);
  TORCH_CHECK(projection_weight_t || projection_dim == dim, "outputs: expected ", dim, " numbers");
  const auto fresh = n_steps && batch_sizes.back() == n_rows ? scratch<T> : zeros<T>;
  Tensor d_gates = fresh({2, n_steps, n_rows, 4 * dim});
  Tensor d_h = fresh({2, n_steps, n_rows, projection_dim});
  // Only the projection is clipped.
  const Backward s{
      .d_outputs = floats(d_outputs, {2, n_steps, n_rows, projection_dim}, "d_outputs"),
      .outputs = floats(outputs, {2, n_steps, n_rows, projection_dim}, "outputs"),
      .memory = floats(memory, {2, n_rows, dim}, "memory"),
      .kept = floats(kept, {2, n_steps, blocks_of(dim), n_rows, KEPT}, "kept"),
      .d_gates = d_gates.mutable_data_ptr<T>(),
      .d_h = d_h.mutable_data_ptr<T>(),
      .dim = dim,
      .projection_dim = projection_dim,
      .cell_clip = static_cast<float>(cell_clip.value_or(INFINITY)),
      .proj_clip = static_cast<float>(projection_weight_t ? proj_clip.value_or(INFINITY) : INFINITY),
      .batch_sizes = batch_sizes,
  };
  Tensor d_bias = zeros<float>({2, n_rows, 4 * dim}); // a row for each task
  const int64_t gate_rows = blocks_of(dim) * GATES;
  if (n_steps && n_rows)
    for_each_task(n_steps, n_rows, [&](const Rows& rows) {
      BackwardTask<T> task{
          s, rows, Packed<T>(recurrent_weight_t, rows.direction, gate_rows, projection_dim), std::nullopt,
          d_bias.mutable_data_ptr<float>() + rows.at(0) * 4 * dim};
      if (projection_weight_t)
        task.projection_weight_t.emplace(*projection_weight_t, rows.direction, projection_dim, dim);
      task.run();
    });
  return {d_gates, d_h, d_bias.sum(1)};
}

std::tuple<Tensor, Tensor, Tensor> scan_backward_of_any_type(
    const Tensor& d_outputs, const Tensor& outputs, const Tensor& memory, const Tensor& kept,
    const Tensor& recurrent_weight_t, const optional<Tensor>& projection_weight_t,
    optional<double> cell_clip, optional<double> proj_clip, at::IntArrayRef batch_sizes) {
  const auto type = recurrent_weight_t.scalar_type();
  const auto f = type == at::kFloat ? scan_backward<float> : scan_backward<BFloat16>;
  return f(
      d_outputs, outputs, memory, kept, recurrent_weight_t, projection_weight_t, cell_clip,
      proj_clip, batch_sizes);
}

Outputs scan_of_any_type(
    const Tensor& inputs, const Tensor& memory, const Tensor& output, const Tensor& input_weight,
    const Tensor& recurrent_weight, const Tensor& bias, const optional<Tensor>& projection_weight,
    optional<double> cell_clip, optional<double> proj_clip, at::IntArrayRef batch_sizes,
    bool keep) {
  const auto type = recurrent_weight.scalar_type();
  const auto f = type == at::kFloat ? scan<float> : type == at::kChar ? scan<Byte> : scan<BFloat16>;
  return f(
      inputs, memory, output, input_weight, recurrent_weight, bias, projection_weight, cell_clip,
      proj_clip, batch_sizes, keep);
}
} // namespace

// `backend.py` reads this from the file before it loads the library.
__attribute__((used)) static const char BUILT_FROM[] =
    "elmo_plugin kernels of " ELMO_PLUGIN_SOURCES " for PyTorch " TORCH_VERSION;

TORCH_LIBRARY(elmo_plugin, library) {
  library.def("is_supported(ScalarType dtype) -> bool", is_supported);
  library.def(
      "lstm_scan(Tensor inputs, Tensor memory, Tensor output, Tensor input_weight, "
      "Tensor recurrent_weight, Tensor bias, Tensor? projection_weight, float? cell_clip, "
      "float? proj_clip, int[] batch_sizes, bool keep) "
      "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      scan_of_any_type);
  library.def(
      "lstm_scan_backward(Tensor d_outputs, Tensor outputs, Tensor memory, Tensor kept, "
      "Tensor recurrent_weight_t, Tensor? projection_weight_t, float? cell_clip, float? proj_clip, "
      "int[] batch_sizes) -> (Tensor, Tensor, Tensor)",
      scan_backward_of_any_type);
}
#endif
