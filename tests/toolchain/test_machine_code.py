"""Instruction counts from listings, and the table of targets."""

import pytest

from atlasgen.runtime.machine_code import read_amdgcn, read_sass
from atlasgen.runtime.targets import all_targets

USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function kernel:
  REG:168 STACK:40 SHARED:1024 LOCAL:0 CONSTANT[0]:576 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
LISTING = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/               @P1 LDGSTS.E.BYPASS.128 [R9], desc[UR4][R2.64] ;
        /*0030*/             @!UP0 UTMALDG.2D [UR8], [UR4] ;
        /*0040*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], !UPT ;
        /*0050*/                   UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8] ;
        /*0060*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0070*/                   FFMA R4, R5, R6, R7 ;
        /*0080*/                   STL [R1], R4 ;
        /*0090*/                   LDL R4, [R1] ;
        /*00a0*/                   STG.E desc[UR4][R2.64], R4 ;
.L_x_0:
        /*00b0*/                   BRA `(.L_x_0);
"""
ASSEMBLY = """
\tglobal_load_dwordx4 v[0:3], v4, s[0:1]
\tbuffer_load_dword v1, off, s[0:3], 0
\tv_mfma_f32_32x32x8_bf16 v[0:15], v[20:21], v[28:29], 0
\tv_fmac_f32_e32 v1, v2, v3
\tscratch_store_dword off, v1, s32
\tglobal_store_dwordx2 v4, v[0:1], s[2:3]
    .vgpr_count:     174
    .vgpr_spill_count: 3
"""


def test_nvidia_listing():
    assert read_sass(USAGE, LISTING) == {
        "registers": 168,
        "spill_bytes": 40,
        "spill_instructions": 2,
        "tensor_core_instructions": 3,
        "global_loads": 3,
        "global_stores": 1,
        "fma": 1,
    }


def test_amd_assembly():
    assert read_amdgcn(ASSEMBLY) == {
        "registers": 174,
        "spill_bytes": 12,
        "spill_instructions": 1,
        "tensor_core_instructions": 1,
        "global_loads": 2,
        "global_stores": 1,
        "fma": 1,
    }


@pytest.mark.parametrize("read", [lambda: read_sass("", LISTING), lambda: read_amdgcn("")])
def test_a_listing_without_figures_is_an_error(read):
    with pytest.raises(RuntimeError, match="no "):
        read()


def test_targets_are_told_apart_and_have_sources():
    targets = all_targets()
    assert list(targets) == ["sm_80", "sm_89", "sm_90", "sm_100", "gfx942"]
    for target in targets.values():
        assert target.source and target.card
        assert target.bf16_flops > target.float32_flops > target.bandwidth > target.l2_bytes
        assert 64 * 1024 <= target.shared_bytes < 256 * 1024
        assert target.warp_size == (64 if target.backend == "hip" else 32)
