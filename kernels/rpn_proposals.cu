// The best anchors of each level and image are selected, sorted, decoded, suppressed and the
// levels' lists merged; every step handles all levels and images in one launch.
#include <algorithm>

#include "kernels/elements.cuh"
#include "kernels/nms.cuh"
#include "kernels/rank_sort.cuh"
#include "kernels/rpn_proposals.h"
#include "kernels/select.cuh"

namespace xp::kernels {
namespace {

// Segment: image * levels + level; an element is numbered within the image.
template <typename T>
struct LogitSource {
  AnchorGrid grid;
  RpnMaps maps;
  int pre_nms;

  __device__ int Count(int segment) const { return grid.count(segment % grid.levels); }
  __device__ int Wanted(int) const { return pre_nms; }
  __device__ bool Key(int segment, int i, uint32_t* key) const {
    int level = segment % grid.levels, image = segment / grid.levels;
    int64_t at = static_cast<int64_t>(image) * grid.count(level) + i;
    *key = ScoreKey(ToFloat(static_cast<const T*>(maps.cls[level])[at]));
    return true;
  }
  __device__ uint32_t Number(int segment, int i) const {
    return static_cast<uint32_t>(grid.first[segment % grid.levels] + i);
  }
};

// Puts the box of a selected anchor at its rank; what is too small or scored too low becomes NaN.
template <typename T>
struct DecodeAtRank {
  AnchorGrid grid;
  RpnMaps maps;
  CoderParams coder;
  const int32_t* sizes;
  float min_size, min_score;
  int capacity;
  uint64_t* keys;
  Box* boxes;

  __device__ void operator()(int segment, int rank, uint64_t key) const {
    int level = segment % grid.levels, image = segment / grid.levels;
    int index = static_cast<int>(RankKeyNumber(key)) - grid.first[level];
    const T* d = static_cast<const T*>(maps.box[level]) +
                 (static_cast<int64_t>(image) * grid.count(level) + index) * 4;
    BoxDeltas deltas{ToFloat(d[0]), ToFloat(d[1]), ToFloat(d[2]), ToFloat(d[3])};
    Box box = Decode(AnchorAt(grid, level, index), deltas, coder);
    box = Clip(box, static_cast<float>(sizes[2 * image]), static_cast<float>(sizes[2 * image + 1]));
    float score = PortableSigmoid(KeyScore(static_cast<uint32_t>(key >> 32)));
    if (!IsAtLeast(box, min_size) || !(score >= min_score)) box.x1 = BitsFloat(0x7fc00000u);
    keys[static_cast<int64_t>(segment) * capacity + rank] = key;
    boxes[static_cast<int64_t>(segment) * capacity + rank] = box;
  }
};

// Threads (position, image * levels + level): an image's list is the merger of its levels', which
// are sorted, so a box's place is its own position plus how many of each other level are better.
__global__ void MergeLevels(int levels, int list_capacity, const uint64_t* keys, const Box* boxes,
                            const int32_t* kept, const int32_t* kept_counts, int most, int capacity,
                            Box* proposals, float* scores, int32_t* counts) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int list = blockIdx.y, image = list / levels, own = list % levels;
  int64_t row = static_cast<int64_t>(image) * capacity;
  int total = 0;
  for (int l = 0; l < levels; ++l) total += kept_counts[image * levels + l];
  total = min(total, most);
  if (own == 0 && i >= total && i < capacity) {
    proposals[row + i] = Box{0, 0, 0, 0};
    scores[row + i] = 0;
  }
  if (own == 0 && i == 0) counts[image] = total;
  if (i >= kept_counts[list]) return;
  int64_t first = static_cast<int64_t>(list) * list_capacity;
  uint64_t key = keys[first + kept[first + i]];
  int place = i;
  for (int l = 0; l < levels; ++l) {
    if (l == own) continue;
    int64_t other = static_cast<int64_t>(image * levels + l) * list_capacity;
    int low = 0, high = kept_counts[image * levels + l];
    while (low < high) {
      int middle = (low + high) / 2;
      if (keys[other + kept[other + middle]] > key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    place += low;
  }
  if (place >= most) return;
  proposals[row + place] = boxes[first + kept[first + i]];
  scores[row + place] = PortableSigmoid(KeyScore(static_cast<uint32_t>(key >> 32)));
}

int ListCapacity(const RpnProposalsProblem& p) {
  int largest = 0;
  for (int l = 0; l < p.grid.levels; ++l) largest = std::max(largest, p.grid.count(l));
  return std::min(p.pre_nms, largest);
}

int LargestLevel(const RpnProposalsProblem& p) {
  int largest = 0;
  for (int l = 0; l < p.grid.levels; ++l) largest = std::max(largest, p.grid.count(l));
  return largest;
}

struct Work {
  Work(const RpnProposalsProblem& p, void* base)
      : scratch(base),
        lists(p.images * p.grid.levels),
        capacity(ListCapacity(p)),
        selection(scratch, lists, LargestLevel(p), capacity),
        keys(scratch.Take<uint64_t>(static_cast<int64_t>(lists) * capacity)),
        boxes(scratch.Take<Box>(static_cast<int64_t>(lists) * capacity)),
        suppress(scratch, lists, capacity) {}

  Scratch scratch;
  int lists, capacity;
  Selection selection;
  uint64_t* keys;
  Box* boxes;
  SuppressScratch suppress;
};

}  // namespace

size_t RpnProposalsScratch(const RpnProposalsProblem& p) { return Work(p, nullptr).scratch.used(); }

void RpnProposals(const RpnProposalsProblem& p, const RpnMaps& maps, const int32_t* sizes,
                  Box* proposals, float* scores, int32_t* counts, void* scratch,
                  cudaStream_t stream) {
  Work work(p, scratch);
  int most = std::min(p.post_nms, p.capacity);
  Dispatch(p.type, [&](auto zero) {
    using T = decltype(zero);
    Select(LogitSource<T>{p.grid, maps, p.pre_nms}, work.selection, stream);
    RankSort(work.selection.chosen, work.selection.counts, work.lists, work.capacity,
             DecodeAtRank<T>{p.grid, maps, p.coder, sizes, p.min_size, p.min_score, work.capacity,
                             work.keys, work.boxes},
             stream);
  });
  Suppress(work.boxes, work.selection.counts, p.nms_iou, most, work.suppress, stream);
  constexpr int kThreads = 256;
  int longest = std::max(p.capacity, work.capacity);
  dim3 grid(static_cast<unsigned>((longest + kThreads - 1) / kThreads),
            static_cast<unsigned>(work.lists));
  MergeLevels<<<grid, kThreads, 0, stream>>>(p.grid.levels, work.capacity, work.keys, work.boxes,
                                             work.suppress.kept, work.suppress.kept_counts, most,
                                             p.capacity, proposals, scores, counts);
}

}  // namespace xp::kernels
