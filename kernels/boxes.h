// Boxes x1 y1 x2 y2 in pixels: overlap, coding, clipping; the same bits on host and device
// (portable_math.h says how). Formulas and their order as torchvision 0.26: ops/boxes.py,
// models/detection/_utils.py.
#pragma once

#include "kernels/portable_math.h"

namespace xp::kernels {

struct alignas(16) Box {
  float x1, y1, x2, y2;
};

struct BoxDeltas {
  float dx, dy, dw, dh;
};

struct CoderParams {
  float wx, wy, ww, wh;  // weights
  float clip;            // upper bound of dw and dh
};

XP_HOST_DEVICE inline float Area(const Box& b) { return (b.x2 - b.x1) * (b.y2 - b.y1); }

// Has width and height, and no NaN.
XP_HOST_DEVICE inline bool HasArea(const Box& b) { return b.x2 > b.x1 && b.y2 > b.y1; }

// Intersection over union; 0 where either has no area or a coordinate is NaN.
XP_HOST_DEVICE inline float Iou(const Box& a, const Box& b) {
  float left = a.x1 > b.x1 ? a.x1 : b.x1;
  float top = a.y1 > b.y1 ? a.y1 : b.y1;
  float right = a.x2 < b.x2 ? a.x2 : b.x2;
  float bottom = a.y2 < b.y2 ? a.y2 : b.y2;
  float w = right - left, h = bottom - top;
  if (!(w > 0) || !(h > 0)) return 0;
  float inter = w * h;
  float both = Area(a) + Area(b) - inter;
  return both > 0 ? inter / both : 0;
}

// The regression target that moves `from` (an anchor, a proposal) onto `to` (ground truth). Both
// must have area.
XP_HOST_DEVICE inline BoxDeltas Encode(const Box& from, const Box& to, const CoderParams& coder) {
  float fw = from.x2 - from.x1, fh = from.y2 - from.y1;
  float fx = from.x1 + 0.5f * fw, fy = from.y1 + 0.5f * fh;
  float tw = to.x2 - to.x1, th = to.y2 - to.y1;
  float tx = to.x1 + 0.5f * tw, ty = to.y1 + 0.5f * th;
  return {coder.wx * (tx - fx) / fw, coder.wy * (ty - fy) / fh, coder.ww * PortableLog(tw / fw),
          coder.wh * PortableLog(th / fh)};
}

XP_HOST_DEVICE inline Box Decode(const Box& from, const BoxDeltas& d, const CoderParams& coder) {
  float w = from.x2 - from.x1, h = from.y2 - from.y1;
  float cx = from.x1 + 0.5f * w, cy = from.y1 + 0.5f * h;
  float dx = d.dx / coder.wx, dy = d.dy / coder.wy;
  float dw = d.dw / coder.ww, dh = d.dh / coder.wh;
  dw = dw > coder.clip ? coder.clip : dw;
  dh = dh > coder.clip ? coder.clip : dh;
  float px = dx * w + cx, py = dy * h + cy;
  float half_w = 0.5f * (PortableExp(dw) * w), half_h = 0.5f * (PortableExp(dh) * h);
  return {px - half_w, py - half_h, px + half_w, py + half_h};
}

XP_HOST_DEVICE inline float ClampTo(float x, float high) {
  return x < 0 ? 0.0f : (x > high ? high : x);  // keeps NaN
}

XP_HOST_DEVICE inline Box Clip(const Box& b, float height, float width) {
  return {ClampTo(b.x1, width), ClampTo(b.y1, height), ClampTo(b.x2, width), ClampTo(b.y2, height)};
}

// False for a NaN as well, so that boxes of a diverged network go.
XP_HOST_DEVICE inline bool IsAtLeast(const Box& b, float min_size) {
  return b.x2 - b.x1 >= min_size && b.y2 - b.y1 >= min_size;
}

}  // namespace xp::kernels
