// The maximum over a word of each convolution of its characters, and the gradients of the tables,
// on CPUs. `reference.py` has the definition.
//
// A block of filters of one table at a time, so that the rows of the characters that occur stay in
// cache, and for each word all windows up to its padding, so that the maximum stays in registers.
// Additions are in the order of the definition, and the gradients are sums over words in their
// order: no number depends on the number of threads.
#if defined(__x86_64__)

#include "kernels.h"

#include <torch/library.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int64_t FILTERS = 64; // filters of a block

struct Block {
  int64_t table, first, size, column; // filters of a table, and where they stand in the maxima
};

std::vector<Block> blocks_of(at::TensorList tables) {
  std::vector<Block> blocks;
  int64_t column = 0;
  for (size_t k = 0; k < tables.size(); ++k) {
    const int64_t n = tables[k].size(2);
    for (int64_t first = 0; first < n; first += FILTERS)
      blocks.push_back({int64_t(k), first, std::min(FILTERS, n - first), column + first});
    column += n;
  }
  return blocks;
}

// The number of each word's windows that differ, which end with the first one of padding alone.
int64_t windows_of(const int64_t* word, int64_t length, int64_t width) {
  int64_t last = length - 1;
  while (last > 0 && word[last] == word[last - 1]) --last;
  return std::min(last, length - width) + 1;
}

// Calls work with the width as a constant, where it is one of the usual ones.
template <class Work>
void with_constant(int64_t width, const Work& work) {
  switch (width) {
    case 1: return work(std::integral_constant<int64_t, 1>());
    case 2: return work(std::integral_constant<int64_t, 2>());
    case 3: return work(std::integral_constant<int64_t, 3>());
    case 4: return work(std::integral_constant<int64_t, 4>());
    case 5: return work(std::integral_constant<int64_t, 5>());
    case 6: return work(std::integral_constant<int64_t, 6>());
    case 7: return work(std::integral_constant<int64_t, 7>());
    default: return work(width);
  }
}

const int64_t* checked(const Tensor& characters, at::TensorList tables) {
  TORCH_CHECK(characters.dim() == 2 && characters.is_contiguous(), "characters: not contiguous");
  const int64_t *ids = characters.const_data_ptr<int64_t>(), *end = ids + characters.numel();
  for (const Tensor& table : tables) {
    TORCH_CHECK(
        table.dim() == 3 && table.size(1) == tables[0].size(1) && table.size(2) > 0,
        "tables: expected shape (width, characters, filters), found ", table.sizes());
    TORCH_CHECK(
        table.size(0) <= characters.size(1), "a convolution of width ", table.size(0),
        " is wider than a word of ", characters.size(1));
  }
  const uint64_t n_characters = tables[0].size(1);
  const bool valid = std::all_of(ids, end, [=](int64_t id) { return uint64_t(id) < n_characters; });
  TORCH_CHECK_INDEX(valid, "characters: expected ids from 0 to ", n_characters - 1);
  return ids;
}

std::tuple<Tensor, Tensor> best_windows(
    const Tensor& characters, at::TensorList tables, bool wants_places) {
  const int64_t* ids = checked(characters, tables);
  const int64_t n_words = characters.size(0), length = characters.size(1);
  const auto blocks = blocks_of(tables);
  const int64_t n_filters = blocks.back().column + blocks.back().size;
  std::vector<const float*> rows;
  for (const Tensor& table : tables) rows.push_back(floats(table, table.sizes(), "table"));
  Tensor best = scratch<float>({n_words, n_filters});
  Tensor at = scratch<uint8_t>({wants_places ? n_words : 0, n_filters});
  float* to = best.mutable_data_ptr<float>();
  uint8_t* at_to = at.mutable_data_ptr<uint8_t>();
  at::parallel_for(0, n_words, 16, [&](int64_t begin, int64_t end) {
    for (const Block& block : blocks) {
      const Tensor& table = tables[block.table];
      const int64_t width = table.size(0), n = table.size(2), plane = table.size(1) * n;
      const int64_t size = block.size;
      const float* from = rows[block.table] + block.first;
      with_constant(width, [&](auto w) {
        vectorized([&]() INLINE {
          for (int64_t u = begin; u < end; ++u) {
            const int64_t* word = ids + u * length;
            const int64_t n_windows = windows_of(word, length, w);
            float most[FILTERS];
            int32_t place[FILTERS] = {};
            for (int64_t t = 0; t < n_windows; ++t)
              for (int64_t k = 0; k < size; ++k) {
                float y = from[word[t] * n + k];
                for (int64_t j = 1; j < w; ++j) y += from[j * plane + word[t + j] * n + k];
                const bool later = t == 0 || y > most[k] || y != y; // NaN stays NaN
                most[k] = later ? y : most[k];
                place[k] = later ? int32_t(t) : place[k];
              }
            std::copy_n(most, size, to + u * n_filters + block.column);
            if (wants_places)
              for (int64_t k = 0; k < size; ++k)
                at_to[u * n_filters + block.column + k] = uint8_t(place[k]);
          }
        });
      });
    }
  });
  return {best, at};
}

std::vector<Tensor> table_gradients(
    const Tensor& d_best, const Tensor& characters, const Tensor& at, at::TensorList tables) {
  const int64_t* ids = checked(characters, tables);
  const int64_t n_words = characters.size(0), length = characters.size(1);
  const auto blocks = blocks_of(tables);
  const int64_t n_filters = blocks.back().column + blocks.back().size;
  const float* from = floats(d_best, {n_words, n_filters}, "d_best");
  TORCH_CHECK(at.sizes() == d_best.sizes() && at.is_contiguous(), "at: expected d_best's shape");
  const uint8_t* places = at.const_data_ptr<uint8_t>();
  std::vector<Tensor> gradients;
  std::vector<float*> rows;
  for (const Tensor& table : tables) {
    gradients.push_back(zeros<float>(table.sizes()));
    rows.push_back(gradients.back().mutable_data_ptr<float>());
  }
  const int64_t n_blocks = blocks.size();
  const int64_t n_tasks = std::min<int64_t>(at::get_num_threads(), n_blocks);
  at::parallel_for(0, n_tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task)
      for (int64_t b = task; b < n_blocks; b += n_tasks) {
        const Block& block = blocks[b];
        const Tensor& table = tables[block.table];
        const int64_t width = table.size(0), n = table.size(2), plane = table.size(1) * n;
        float* to = rows[block.table] + block.first;
        for (int64_t u = 0; u < n_words; ++u) {
          const int64_t* word = ids + u * length;
          const float* d = from + u * n_filters + block.column;
          const uint8_t* place = places + u * n_filters + block.column;
          for (int64_t j = 0; j < width; ++j)
            for (int64_t k = 0; k < block.size; ++k) {
              const int64_t at = std::min<int64_t>(place[k], length - width);
              to[j * plane + word[at + j] * n + k] += d[k];
            }
        }
      }
  });
  return gradients;
}
} // namespace

TORCH_LIBRARY_FRAGMENT(elmo_plugin, library) {
  library.def(
      "best_windows(Tensor characters, Tensor[] tables, bool wants_places) -> (Tensor, Tensor)",
      best_windows);
  library.def(
      "table_gradients(Tensor d_best, Tensor characters, Tensor at, Tensor[] tables) -> Tensor[]",
      table_gradients);
}
#endif
