//! HBM with the parameters of ADM's authors. Commercial HBM has 7-7-7 at 500 MHz, or 14-14-14 at 1
//! GHz: this is about twice as fast.

use super::hbm2;
use crate::dram::DramParameters;

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "hbm2-paper",
    source: "ADM (Micromachines 2022), Table 2: 1 GHz, 7-7-7, 8 banks; tRAS: that of HBM1 in \
             clocks; two groups: assumed; the rest: DRAMsim3, HBM2_8Gb_x128.ini",

    groups: 2,

    cl: 7,
    t_rcd_read: 7,
    t_rcd_write: 7,
    t_rp: 7,
    t_ras: 17,

    ..hbm2::PARAMETERS
};
