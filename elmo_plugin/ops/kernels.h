// What the compiled kernels share: loops that are compiled for AVX2 and for AVX-512, rounding, and
// products, which are PyTorch's `brgemm`, oneDNN's kernel for the processor at hand.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <string>

namespace {

using at::BFloat16;
using at::Tensor;

// ---- Loops that compilers vectorize for each processor. ----

#define INLINE __attribute__((always_inline))

template <class Loop>
__attribute__((target("avx2,fma"))) void run_avx2(const Loop& loop) {
  loop();
}

template <class Loop>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512"))) //
void run_avx512(const Loop& loop) {
  loop();
}

template <class Loop>
void vectorized(const Loop& loop) {
  static const bool avx512 = at::get_cpu_capability() == "AVX512";
  avx512 ? run_avx512(loop) : run_avx2(loop);
}

// Whether the loops and brgemm have code for this processor.
bool is_supported(at::ScalarType type) {
  std::string capability = at::get_cpu_capability();
  if (type == at::kBFloat16) return capability == "AVX512" && __builtin_cpu_supports("avx512bf16");
  if (type == at::kChar) return capability == "AVX512" && __builtin_cpu_supports("avx512vnni");
  return capability == "AVX2" || capability == "AVX512";
}

INLINE inline float clip(float x, float bound) { // NaN stays NaN
  x = x > bound ? bound : x;
  return x < -bound ? -bound : x;
}

constexpr float TO_INTEGER = 12582912; // 1.5 * 2^23; (x + TO_INTEGER) - TO_INTEGER is rounded

// exp(x) = power e^r, where power is the nearest power of 2 and |r| <= ln(2) / 2, for |x| <= 87.
struct Exponential {
  float power, r;
  INLINE explicit Exponential(float x) {
    const float n = (x * 1.44269504f + TO_INTEGER) - TO_INTEGER;
    r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  }
};

// The bits of a number, not NaN, in bfloat16: to the nearest, halfway to the even one.
INLINE inline uint32_t bfloat16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

INLINE inline void store(float* to, float x) { *to = x; }

INLINE inline void store(BFloat16* to, float x) {
  to->x = static_cast<uint16_t>(x != x ? 0x7fc0 : bfloat16_bits(x));
}

constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// ---- Products ----

// Rows of the second factor of a product that are interleaved: numbers of one column stand next to
// each other.
template <class T>
constexpr int64_t PAIR = std::is_same_v<T, BFloat16> ? 2 : 1;

// out = a b, or out += a b. Shapes: a (n, k), b (k, m), out (n, m).
template <class T>
void product(
    int64_t n, int64_t m, int64_t k, const T* a, int64_t a_stride, const T* b, int64_t b_stride,
    float* out, int64_t out_stride, bool add) {
  at::native::cpublas::brgemm(
      n, m, k, a_stride, b_stride, out_stride, add, a, b, out, PAIR<T> == 2);
}

template <class T>
constexpr auto dtype = c10::CppTypeToScalarType<T>::value;

template <class T>
Tensor scratch(at::IntArrayRef shape) {
  return at::empty(shape, at::TensorOptions().dtype(dtype<T>));
}

template <class T>
Tensor zeros(at::IntArrayRef shape) {
  return at::zeros(shape, dtype<T>);
}

const float* floats(const Tensor& x, at::IntArrayRef shape, const char* name) {
  TORCH_CHECK(
      x.sizes() == shape && x.is_contiguous() && x.is_cpu(), name,
      ": expected a contiguous tensor of shape ", shape, " on the CPU, found ", x.sizes(), " on ",
      x.device());
  return x.const_data_ptr<float>();
}
} // namespace
