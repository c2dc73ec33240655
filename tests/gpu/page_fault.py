"""A program that writes to an address that isn't its own, on the GPU: the driver says XID 31. Ends non-zero."""

from __future__ import annotations

import ctypes
import sys

NOT_OURS = 0x7000_0000_0000
"""No allocation of CUDA's is there."""
SOURCE = (
    b".version 7.0\n.target sm_70\n.address_size 64\n"
    b".visible .entry poke(.param .u64 where) {\n"
    b"  .reg .u64 %a;\n  .reg .u32 %v;\n"
    b"  ld.param.u64 %a, [where];\n  mov.u32 %v, 1;\n  st.global.u32 [%a], %v;\n  ret;\n}\n\0"
)


def main() -> int:
    """Through the driver's own library, so that neither PyTorch nor a compiler is needed."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    where = ctypes.c_uint64(NOT_OURS)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(where), ctypes.c_void_p))
    steps = (
        ("cuInit", lambda: cuda.cuInit(0)),
        ("cuDeviceGet", lambda: cuda.cuDeviceGet(ctypes.byref(device), 0)),
        ("cuCtxCreate", lambda: cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)),
        ("cuModuleLoadData", lambda: cuda.cuModuleLoadData(ctypes.byref(module), SOURCE)),
        ("cuModuleGetFunction", lambda: cuda.cuModuleGetFunction(ctypes.byref(function), module, b"poke")),
        ("cuLaunchKernel", lambda: cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)),
    )
    for name, step in steps:
        code = step()
        if code != 0:
            print(f"{name} ended with {code}, so nothing was provoked", file=sys.stderr)
            return 2
    code = cuda.cuCtxSynchronize()
    print(f"cuCtxSynchronize ended with {code}; 700 is an illegal address")
    return 1 if code == 700 else 3


if __name__ == "__main__":
    sys.exit(main())
