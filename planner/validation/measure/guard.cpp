// Makes a CPU-only PyTorch accept fake CUDA tensors in forward and backward: nothing is allocated, no kernel runs.
//
//   * A device guard for CUDA that does nothing, without which autograd refuses to record a CUDA tensor.
//   * Hooks that say a CUDA device is there, without which the autograd engine refuses to run its nodes.
//   * A CUDA entry in the dispatch of scaled_dot_product_attention, so that its own C++ takes the path a GPU takes.
//     The order restates the one of torch 2.13 on sm80 and newer: flash for 16-bit inputs without a mask, then the
//     memory-efficient kernel where query and key heads are equal, else plain math.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace at {

struct PretendedCuda final : CUDAHooksInterface {
  explicit PretendedCuda(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
};

C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", PretendedCuda)

}  // namespace at

namespace {

constexpr int64_t kMath = 0, kFlash = 1, kEfficient = 2;
constexpr int64_t kFlashHeadLimit = 256;

c10::Device only_device() { return c10::Device(c10::DeviceType::CUDA, 0); }
c10::Stream only_stream() { return c10::Stream(c10::Stream::DEFAULT, only_device()); }

struct IdleGuard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device getDevice() const override { return only_device(); }
  c10::Device exchangeDevice(c10::Device) const override { return only_device(); }
  c10::Stream getStream(c10::Device) const noexcept override { return only_stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return only_stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return only_stream(); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
};

int64_t choose_kernel(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const std::optional<at::Tensor>& mask, double, bool, std::optional<double>, bool grouped) {
  const auto dtype = query.scalar_type();
  const bool half = dtype == at::kBFloat16 || dtype == at::kHalf;
  const bool masked = mask.has_value() && mask->defined();
  const bool equal_heads = query.size(1) == key.size(1) && query.size(1) == value.size(1);
  const int64_t width = query.size(-1);
  if (half && !masked && width <= kFlashHeadLimit && width == value.size(-1) && (equal_heads || grouped)) return kFlash;
  if ((half || dtype == at::kFloat) && equal_heads && width % (half ? 8 : 4) == 0) return kEfficient;
  return kMath;
}

}  // namespace

extern "C" void install() {
  if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return;
  static IdleGuard guard;
  c10::impl::registerDeviceGuard(c10::DeviceType::CUDA, &guard);
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_kernel);
}
