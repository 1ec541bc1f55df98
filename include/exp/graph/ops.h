// The operations of the graph: for each its inputs, outputs, attributes and meaning. Both backends
// implement every one of them with this meaning; nothing but speed differs.
//
// Conventions. T is the compute type (f32, bf16, f16); arithmetic inside an op is fp32. Maps are
// [N, H, W, C]. "[x]" marks an optional input or output (kNoTensor when absent). An op that updates
// a tensor in place lists it in its inputs and in its outputs. Boxes are x1 y1 x2 y2 in pixels of
// the resized image, fp32. Gradient ops are separate ops, added by AppendBackward (autodiff.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "exp/graph/tensor.h"

namespace xp::graph {

enum class OpType : uint8_t {
  // ---- images and element-wise
  kImageNormalize,  // images u8 [N,H,W,3], sizes i32 [N,2] (h, w) -> y T [N,H,W,3]. NormalizeAttrs
                    //   y = (u8 / 255 - mean) / std inside h x w, 0 outside
  kAdd,             // x0 .. xk (same shape, k >= 1) -> y = sum in input order. ReluAttrs
  kRelu,            // x -> y
  kReluGrad,        // dy, y -> dx = y > 0 ? dy : 0
  kSigmoid,         // x -> y
  kSigmoidGrad,     // dy, y -> dx
  kCast,            // x -> y, another type, round to nearest even

  // ---- convolution and linear (weights as in params.h: [O,KH,KW,I/groups], [O,K])
  kConv2d,       // x T, w T, [bias f32 [O]] -> y T. ConvAttrs
  kConv2dDgrad,  // dy, w -> dx. ConvAttrs
  kConv2dWgrad,  // x, dy -> dw (T). ConvAttrs
  kBiasGrad,     // dy T [.., C] -> db f32 [C]: sum over all but the last dimension
  kLinear,       // x T [M,K], w T [O,K], [bias f32 [O]] -> y T [M,O]. ReluAttrs
  kLinearDgrad,  // dy [M,O], w -> dx [M,K]
  kLinearWgrad,  // x [M,K], dy [M,O] -> dw (T)

  // ---- normalisation. mask: u8 [ceil(elements/8)], bit i%8 of byte i/8 = output element i > 0
  kBatchNorm,      // x T, scale, bias, mean, var (all f32 [C]), [residual T]
                   //   -> [y T], save_mean f32 [C], save_invstd f32 [C], [mask], mean, var.
                   //   NormAttrs; without y the statistics only
                   //   batch statistics (biased variance normalises, unbiased goes into the running
                   //   one): running = (1 - momentum) * running + momentum * batch
                   //   y = relu?(scale * (x - m) * invstd + bias + residual)
  kBatchNormGrad,  // dy, x, scale, save_mean, save_invstd, [mask]
                   //   -> dx, dscale f32 [C], dbias f32 [C], [dresidual]. NormAttrs
                   //   with a mask dy counts as 0 where the bit is 0; dresidual is that masked dy
  kAffine,  // x T, scale, bias, mean, var (f32 [C]), [residual T], [gate T [N,C]] -> y T, [mask].
            // NormAttrs
            //   the same with fixed statistics: invstd = 1 / sqrt(var + eps)
  kAffineGrad,  // dy, [x], scale, mean, var, [mask] -> dx, [dscale], [dbias], [dresidual].
                // NormAttrs

  // The parts of batch norms that step_passes.h puts together anew. invstd is 1 / sqrt(var + eps).
  kNormJoin,      // xa T, scale, bias, mean, invstd (f32 [C]), [xb T, scale, bias, mean, invstd],
                  //   [residual T] -> y T, [mask]. NormAttrs
                  //   y = relu?(gate * norm(xa) + norm(xb) + residual), rounded once
  kNormGradSums,  // [mask], dy0, [dy1], [dy2], [xa T, scale, mean, invstd], [xb T, scale, mean,
                  //   invstd] -> g T, [dbias a], [dscale a], [factors a], [dbias b], [dscale b],
                  //   [factors b] (f32 [C]; factors f32 [3,C]). g = dy0 + dy1 + dy2, rounded to
                  //   T, then 0 where the mask's bit is; dbias is g's sum, without x too. The last
  //   dy but dy0 may be [N,ceil(H/2),ceil(W/2),C]: g's even rows and columns, else 0
  kNormGradApply,  // g, x, factors f32 [3,C] -> dx = f[0] * g + (f[1] * x + f[2])

  // Gram statistics: of y = a W^T (a 1x1 convolution) from a's own, G = a^T a / N and its mean.
  kGramStatistics,  // a T [..,C], w T [K,1,1,C], mean, var f32 [K] -> save_mean, save_invstd f32
  //   [K], mean, var, centre f32 [C] (a's mean), product f32 [K,C] = W (G - centre
  //   centre^T). NormAttrs. As kBatchNorm's statistics of the unrounded y
  kGramGrad,  // g T [..,K], a, w, product, centre, dbias f32 [K] (g's sum), scale, save_mean,
              //   save_invstd -> [dw T], dscale f32 [K], scaled T [K,1,1,C], mix T [C,1,1,C], shift
              //   f32 [C]: of norm(a W^T) with g flowing in, without y. da = g scaled + a mix +
              //   shift
  kDgradJoin,  // [mask], dy T [N,H,W,K], w T [K,1,1,C], more0 T [N,H,W,C], [more1]
               //   -> g T, [dbias a], [dbias b]. ConvAttrs. kNormGradSums without x of what
               //   kConv2dDgrad gives and the others; the product isn't rounded before the sum. The
               //   last of the others may be half a map as there
  // Squeeze-and-excitation folded into the batch norm before it, z = norm(x) never being made.
  // gate,
  // pooled and their gradients T [N,C].
  kSqueezeStatistics,  // x T [N,H,W,C], scale, bias, mean, var -> save_mean, save_invstd, mean,
                       // var,
                       //   image_mean f32 [N,C] (of x), pooled (z's mean over an image). NormAttrs
  kSqueezeSums,        // [mask], dy0, [dy1], [dy2], x, scale, bias, mean, invstd -> [g T], sums f32
                       //   [2,N,C], dgate. g as kNormGradSums', flowing into gate * z; sums: of g
                       //   and of g (x - mean) over each image
  kSqueezeFactors,  // sums, gate, dpooled, image_mean, scale, mean, invstd, x (its shape only) ->
                    //   [dscale], [dbias], slopes f32 [N,C], shifts f32 [N,C], common f32 [C]
  kSqueezeApply,    // g, x, slopes, shifts, common -> dx = slope * g + (common * x + shift)
  // Batch norm, ReLU and the max pool after them at once.
  kNormPool,  // x T [N,H,W,C], scale, bias, mean, invstd f32 [C] -> y T [N,h,w,C], argmax u8 (as
              //   kMaxPool's; 255 where y isn't > 0). PoolAttrs. y = maxpool(relu(norm(x)))
  kNormPoolSums,  // dy T [N,h,w,C], argmax, x, scale, mean, invstd -> [dbias], [dscale], factors
                  // f32
                  //   [3,C]. PoolAttrs. As kNormGradSums with g = the gradient through the pool
  kNormPoolGrad,  // dy, argmax, x, factors -> dx. PoolAttrs. As kNormGradApply

  // ---- pooling and resampling
  kMaxPool,        // x -> y, [argmax u8, y'"'"'s shape: ky * kernel_w + kx of the first maximum].
                   // PoolAttrs
  kMaxPoolGrad,    // dy, argmax -> dx. PoolAttrs
  kGlobalAvgPool,  // x [N,H,W,C] -> y [N,C]
  kGlobalAvgPoolGrad,  // dy [N,C] -> dx [N,H,W,C]
  kUpsampleAdd,        // top [N,h,w,C], lateral [N,H,W,C] -> y = lateral + nearest(top):
                       //   source row = floor(row * h / H), likewise columns
  kUpsampleGrad,       // dy [N,H,W,C] -> dtop [N,h,w,C]: sums over the pixels that read each source
  kSubsample,      // x -> y = x[:, ::2, ::2, :], size ceil(H/2) x ceil(W/2) (FPN'"'"'s extra level)
  kSubsampleGrad,  // dy -> dx
  kScaleChannels,  // x [N,H,W,C], s T [N,C] -> y = x * s (squeeze-and-excitation)
  kScaleChannelsGrad,  // dy, x, s -> dx, ds T [N,C]
  kL2Norm,      // x, scale f32 [C] -> y = scale * x / max(||x over C||, 1e-12) (SSD'"'"'s conv4_3)
  kL2NormGrad,  // dy, x, scale -> dx, dscale f32 [C]

  // ---- classification
  kSoftmaxCrossEntropy,  // logits T [N,K], labels i32 [N], [loss_scale f32 [1]]
                         //   -> loss f32 [1] (mean), dlogits T, correct i32 [2] (top-1, top-5).
                         //   CrossEntropyAttrs. Rows whose label isn't in [0, K) don't count, have
                         //   no gradient and aren't correct; of equal logits the lower class wins

  // ---- region proposals. L levels; cls[l] T [N,H,W,A], box[l] T [N,H,W,A*4]; an image'"'"'s
  // anchors are
  //      numbered level by level, then row, column, anchor: index = ((row * W) + column) * A + a.
  kRpnTargets,    // gt_boxes f32 [N,G,4], gt_counts i32 [N], step_key u32 [4]
                  //   -> sampled i32 [N,S] (anchor numbers: positives first, each part ascending;
                  //   -1 beyond), targets f32 [N,S,4] (encoded; 0 for negatives), counts i32 [N,2]
                  //   (positives, negatives). RpnTargetAttrs
  kRpnLoss,       // cls[0..L), box[0..L), sampled, targets, counts, [loss_scale]
                  //   -> losses f32 [2] (objectness, box), dcls[0..L), dbox[0..L). RpnLossAttrs
                  //   both divided by the number sampled in the whole batch (1 if none)
  kRpnProposals,  // cls[0..L), box[0..L), sizes i32 [N,2] -> proposals f32 [N,P,4], scores f32
                  // [N,P]
                  //   (sigmoid), counts i32 [N]. Sorted by score; rows beyond the count are 0.
                  //   RpnProposalAttrs
  kRoiTargets,    // proposals, proposal_counts, gt_boxes, gt_labels i32 [N,G], gt_counts, step_key
                  //   -> rois f32 [N,R,4], labels i32 [N,R] (class, -1 in unused rows), targets f32
                  //   [N,R,4] (encoded; 0 for background), counts i32 [N,2] (positives, negatives).
                  //   Ground truth joins the proposals. Positives first. RoiTargetAttrs
  kRoiAlign,  // feature[0..L) T [N,H,W,C], rois f32 [N,R,4], counts i32 [N] or [N,2] (rows beyond
              //   their sum give 0) -> y T [N*R, S, S, C]. RoiAlignAttrs
  kRoiAlignGrad,  // dy, rois, counts -> dfeature[0..L) T. RoiAlignAttrs
  kRoiLoss,  // logits T [N*R,K+1], deltas T [N*R,(K+1)*4], labels, targets, counts, [loss_scale]
             //   -> losses f32 [2] (classification: mean over all sampled; box: sum over positives
             //   / number sampled), dlogits, ddeltas. RoiLossAttrs
  kDetections,  // logits, deltas, rois f32 [N,R,4], counts i32 [N], sizes i32 [N,2]
  //   -> boxes f32 [N,D,4], scores f32 [N,D], labels i32 [N,D] (0-based class), counts
  //   i32 [N]. Sorted by score. DetectionAttrs

  // ---- single shot detection. cls[l] T [N,H,W,A_l*(K+1)], box[l] T [N,H,W,A_l*4]
  kSsdTargets,  // gt_boxes, gt_labels, gt_counts -> matched i32 [N,B] (index of the ground truth,
                // -1),
                //   counts i32 [N] (positives). SsdAttrs
  kSsdLoss,     // cls[0..L), box[0..L), matched, counts, gt_boxes, gt_labels, [loss_scale]
                //   -> losses f32 [2] (classification, box), dcls[0..L), dbox[0..L). SsdAttrs
  kSsdDetections,  // cls[0..L), box[0..L), sizes -> boxes, scores, labels, counts as kDetections.
                   // SsdAttrs

  // ---- update. P = the whole flat buffers; UpdateAttrs lists the trained segments
  kClipGrad,  // grad f32 [P], [grad_compute T [P]], loss_scale f32 [1], accumulated f32 [P] or none
              //   -> factor f32 [1], norm f32 [1]: by what gradients are multiplied before use
              //   (1 / loss_scale, 1 / cumulative_iters and clipping in one), and their norm after
              //   unscaling; factor 0 where a gradient is not finite. ClipAttrs
  kSgd,       // grad, [grad_compute], [accumulated], param f32 [P], momentum f32 [P], lr f32 [1],
              //   [factor] -> param, momentum, [param_compute T [P]]. UpdateAttrs
              //   g = factor * grad (skips all when factor is 0) + decay * p; m = mu * m + g;
              //   p -= lr * (nesterov ? g + mu * m : m). PyTorch'"'"'s rule: the first m equals g.
  kAdam,  // grad, [grad_compute], [accumulated], param, m, v f32 [P], step f32 [1] (counts applied
          //   steps, updated in place), lr, [factor] -> param, m, v, step, [param_compute].
          //   UpdateAttrs (decoupled: AdamW)
  kLars,  // as kSgd with g = local * (factor * grad + decay * p), a segment being a layer:
          //   local = trust * ||p|| / (||factor * grad|| + decay * ||p||), 1 where a norm is 0.
          //   UpdateAttrs
  kAccumulate,  // grad, [grad_compute], accumulated, first i32 [1], [weight f32 [1], else 1]
                // -> accumulated = first ? weight * g : acc + weight * g. UpdateAttrs
  kCastParams,  // param f32 [P] -> param_compute T [P]
  kEma,         // param, ema f32 [P], momentum f32 [1] -> ema = (1 - momentum) * ema + momentum * p
  kUpdateLossScale,  // factor f32 [1], scale f32 [1], good_steps f32 [1] -> scale, good_steps.
  //   LossScaleAttrs: halves when factor is 0, doubles after `interval` good steps
};

const char* OpName(OpType type);

struct NoAttrs {};
struct NormalizeAttrs {
  std::array<float, 3> mean{}, std{};  // of values in [0, 1]
};
struct ReluAttrs {
  bool relu = false;  // applied to the result
};
struct ConvAttrs {
  std::array<int, 2> stride{1, 1}, pad{0, 0}, dilation{1, 1};  // y, x
  int groups = 1;
  bool relu = false;  // forward only, applied after the bias
};
struct NormAttrs {
  float eps = 1e-5f;
  float momentum = 0.1f;
  bool relu = false;
};
struct PoolAttrs {
  int kernel = 2, stride = 2, pad = 0;
  bool ceil = false;  // torch'"'"'s ceil_mode; decides the output'"'"'s shape only
};
struct CrossEntropyAttrs {
  float label_smoothing = 0;
};

// The anchors of one level: anchor(row, column, a) = base[a] + (column * stride_x, row * stride_y,
// column * stride_x, row * stride_y). base: A x 4.
struct AnchorLevel {
  int height = 0, width = 0;
  float stride_y = 0, stride_x = 0;
  std::vector<float> base;
  int per_cell() const { return static_cast<int>(base.size() / 4); }
  int64_t count() const { return static_cast<int64_t>(height) * width * per_cell(); }
};

// Encodes (dx, dy, dw, dh) = ((gx - ax) / aw, (gy - ay) / ah, log(gw / aw), log(gh / ah)) *
// weights; decoding clamps dw and dh from above by clip.
struct BoxCoder {
  std::array<float, 4> weights{1, 1, 1, 1};
  float clip = 4.135166556742356f;  // log(1000 / 16)
};

struct Matcher {
  float positive = 0.7f;             // IoU >= positive: matched
  float negative = 0.3f;             // IoU < negative: background; between: ignored
  bool low_quality = true;           // each ground truth also takes its best anchors (ties too) ...
  float low_quality_min = 0;         // ... if their IoU is at least this (mmdetection: 0.3)
  bool low_quality_to_best = false;  // mmdetection: and such an anchor is assigned to that very
                                     // box; torchvision: to the box it overlaps most
};

struct RpnTargetAttrs {
  std::vector<AnchorLevel> levels;
  Matcher matcher;
  BoxCoder coder;
  int samples = 256;
  float positive_fraction = 0.5f;
};
// Which regression loss: |d| < beta ? d^2 / (2 beta) : |d| - beta / 2; beta 0 is L1.
struct RpnLossAttrs {
  std::vector<AnchorLevel> levels;
  float beta = 1.0f / 9;
};
struct RpnProposalAttrs {
  std::vector<AnchorLevel> levels;
  BoxCoder coder;
  int pre_nms = 2000;   // a level
  int post_nms = 2000;  // an image; the capacity P
  float nms_iou = 0.7f;
  float min_size = 1e-3f;
  float min_score = 0;
};
struct RoiTargetAttrs {
  Matcher matcher{0.5f, 0.5f, false, 0, false};
  BoxCoder coder{{10, 10, 5, 5}};
  int samples = 512;
  float positive_fraction = 0.25f;
  bool add_ground_truth = true;
  int num_classes = 0;  // K; labels here are 0..K-1 for objects and `background` for background
  int background = 0;   // 0: torchvision (objects become 1..K); K: mmdetection
};
// Level of a box: clamp(floor(canonical_level + log2(sqrt(area) / canonical_size) + 1e-6)).
struct RoiAlignAttrs {
  std::vector<float> scales;  // a level: feature size / image size, a power of two
  int output = 7;
  int sampling_ratio = 2;  // samples a bin and direction; <= 0: ceil(roi size / output)
  bool aligned = false;    // true: coordinates shifted by -0.5
  int canonical_level = 4, canonical_size = 224;
  int min_level = 2;  // level of the first feature map
};
struct RoiLossAttrs {
  int num_classes = 0;
  int background = 0;
  float beta = 1.0f / 9;
  bool class_agnostic = false;  // deltas are [N*R, 4]
};
struct DetectionAttrs {
  BoxCoder coder{{10, 10, 5, 5}};
  int num_classes = 0;
  int background = 0;
  float min_score = 0.05f;
  float min_size = 1e-2f;
  float nms_iou = 0.5f;
  int max_detections = 100;  // the capacity D
  bool class_agnostic = false;
};
struct SsdLevel {
  int height = 0, width = 0;
  int per_cell = 0;
};
struct SsdAttrs {
  std::vector<SsdLevel> levels;
  std::vector<float> boxes;  // default boxes, B x 4, pixels
  BoxCoder coder{{10, 10, 5, 5}};
  Matcher matcher{0.5f, 0.5f, true, 0, false};
  int num_classes = 0;  // K; background is column 0
  float negative_ratio = 3;
  float beta = 1;
  float min_score = 0.01f;
  int candidates = 400;  // a class
  float nms_iou = 0.45f;
  int max_detections = 200;
};

// A run of the flat buffers that is trained.
struct Segment {
  int64_t offset = 0, count = 0;
  float lr_multiplier = 1, decay = 0;
  bool compute_grad = false;  // its gradient is in grad_compute, from `offset` on
  int64_t grad_offset = 0;    // else where it begins in grad
};
struct UpdateAttrs {
  std::vector<Segment> segments;
  float momentum = 0.9f;
  bool nesterov = false;
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
  bool decoupled = false;
  float trust = 0.001f;
  float max_value = 0;  // 0: no clipping by value, else |factor * grad| <= max_value
  bool use_accumulated = false;
};
struct ClipAttrs {
  std::vector<Segment> segments;
  float max_norm = 0;       // 0: no clipping by norm
  float max_value = 0;      // 0: no clipping by value (applied by the update op: |g| <= max_value)
  float inverse_count = 1;  // 1 / cumulative_iters
  bool use_accumulated = false;
};
struct LossScaleAttrs {
  int interval = 2000;
  float max_scale = 65536 * 256.0f;
};

using OpAttrs = std::variant<NoAttrs, NormalizeAttrs, ReluAttrs, ConvAttrs, NormAttrs, PoolAttrs,
                             CrossEntropyAttrs, RpnTargetAttrs, RpnLossAttrs, RpnProposalAttrs,
                             RoiTargetAttrs, RoiAlignAttrs, RoiLossAttrs, DetectionAttrs, SsdAttrs,
                             UpdateAttrs, ClipAttrs, LossScaleAttrs>;

struct Op {
  OpType type;
  std::vector<TensorId> inputs, outputs;
  OpAttrs attrs;
  std::string name;  // for profiles and messages: "layer1.0.conv1"
};

}  // namespace xp::graph
