//! The gaps that the bus and the banks require between two commands, from the parameters.

use super::DramParameters;

/// The minimum numbers of clocks from one command to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    /// Gap from a read to its last data.
    pub(super) read_data: u64,
    /// Gaps between columns in the same group, in other groups, and in other ranks.
    pub(super) read_to_read: Spread,
    pub(super) write_to_write: Spread,
    pub(super) write_to_read: Spread,
    /// Gap in all groups, and then the one to other ranks.
    pub(super) read_to_write: u64,
    pub(super) read_to_write_other_rank: u64,
    pub(super) read_to_precharge: u64,
    pub(super) write_to_precharge: u64,
    pub(super) activate_to_read: u64,
    pub(super) activate_to_write: u64,
    pub(super) activate_to_precharge: u64,
    pub(super) activate_to_activate: u64,
    pub(super) activate_same_group: u64,
    pub(super) activate_other_group: u64,
    pub(super) window: u64,
    pub(super) precharge: u64,
    /// Gap from a read that closes its row to the next row. The device closes the row when the
    /// read's data has left it, as in DRAMsim3.
    pub(super) closing_read_to_activate: u64,
    pub(super) refresh: u64,
}

/// A gap within a group, to another group, and to another rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) same_group: u64,
    pub(super) other_group: u64,
    pub(super) other_rank: u64,
}

impl Gaps {
    pub(super) fn new(parameters: &DramParameters) -> Gaps {
        let DramParameters { burst, cl, cwl, .. } = *parameters;
        let switch = parameters.t_rtrs;
        let (read_data, write_data) = (cl + burst, cwl + burst);
        // With a single group, its banks are as far apart as groups are.
        let long = |long: u64, short: u64| match parameters.groups {
            1 => short,
            _ => long,
        };
        let other_group = burst.max(parameters.t_ccd_s);
        let same_group = |gap: u64| burst.max(long(gap, parameters.t_ccd_s));
        Gaps {
            read_data,
            read_to_read: Spread {
                same_group: same_group(parameters.t_ccd_l),
                other_group,
                other_rank: burst + switch,
            },
            write_to_write: Spread {
                same_group: same_group(parameters.t_ccd_l_write),
                other_group,
                // Writes of two ranks are driven by the controller, so the bus need not change
                // hands.
                other_rank: burst,
            },
            write_to_read: Spread {
                same_group: write_data + long(parameters.t_wtr_l, parameters.t_wtr_s),
                other_group: write_data + parameters.t_wtr_s,
                other_rank: (write_data + burst + switch).saturating_sub(read_data),
            },
            // A write may be sent before the read's data has passed, because its own data follows
            // later.
            read_to_write: (cl + burst + switch).saturating_sub(cwl),
            read_to_write_other_rank: (read_data + burst + switch).saturating_sub(write_data),
            read_to_precharge: parameters.t_rtp,
            write_to_precharge: write_data + parameters.t_wr,
            activate_to_read: parameters.t_rcd_read,
            activate_to_write: parameters.t_rcd_write,
            activate_to_precharge: parameters.t_ras,
            activate_to_activate: parameters.t_ras + parameters.t_rp,
            activate_same_group: long(parameters.t_rrd_l, parameters.t_rrd_s),
            activate_other_group: parameters.t_rrd_s,
            window: parameters.t_faw,
            precharge: parameters.t_rp,
            closing_read_to_activate: burst + parameters.t_rtp + parameters.t_rp,
            refresh: parameters.t_rfc,
        }
    }
}
