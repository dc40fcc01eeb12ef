//! The checker, which judges a list of commands by the parameters alone: each pair is compared,
//! without any state that the model keeps.

use super::super::DramPagePolicy;
use super::*;

/// Returns an error for the first two commands that are too close to each other, or for a command
/// that its bank cannot get.
pub(super) fn check(
    parameters: &DramParameters,
    log: &[(u64, DramCommandRecord)],
) -> Result<(), String> {
    let longest = [
        parameters.t_rfc,
        parameters.t_faw,
        parameters.t_ras + parameters.t_rp,
        parameters.cwl + parameters.burst + parameters.t_wr + parameters.t_rp,
    ];
    let longest = longest.into_iter().max().unwrap();
    for (index, (clock, issued)) in log.iter().enumerate() {
        let mut opened = 0;
        for (earlier, before) in log[..index].iter().rev() {
            if clock - earlier > longest {
                break;
            }
            let gap = gap(parameters, *before, *issued);
            if clock - earlier < gap {
                return Err(format!(
                    "{issued:?} at {clock} is {} clocks after {before:?}, not {gap}",
                    clock - earlier
                ));
            }
            let is_opening = |issued: &DramCommandRecord| match issued {
                DramCommandRecord::Bank(DramCommand::Activate, bank, _) => {
                    Some(rank_of(parameters, *bank))
                }
                _ => None,
            };
            if is_opening(issued).is_some() && is_opening(issued) == is_opening(before) {
                opened += 1;
                if opened == 4 && clock - earlier < parameters.t_faw {
                    return Err(format!(
                        "{issued:?} at {clock} is the fifth since {earlier}"
                    ));
                }
            }
        }
    }
    rows(parameters, log)?;
    buses(parameters, log)
}

fn rank_of(parameters: &DramParameters, bank: usize) -> usize {
    bank / (parameters.groups * parameters.banks_per_group) as usize
}

fn gap(parameters: &DramParameters, before: DramCommandRecord, after: DramCommandRecord) -> u64 {
    let p = parameters;
    let ((first, from), (second, to)) = match (before, after) {
        (DramCommandRecord::Bank(first, from, _), DramCommandRecord::Bank(second, to, _)) => {
            ((first, from), (second, to))
        }
        (DramCommandRecord::Refresh(rank), DramCommandRecord::Bank(_, to, _)) => {
            return if rank == rank_of(p, to) { p.t_rfc } else { 0 };
        }
        (DramCommandRecord::Bank(first, from, _), DramCommandRecord::Refresh(rank)) => {
            return match (rank == rank_of(p, from), first) {
                (true, DramCommand::Precharge) => p.t_rp,
                (true, DramCommand::ReadAndPrecharge) => p.t_rtp + p.t_rp,
                (true, DramCommand::WriteAndPrecharge) => p.cwl + p.burst + p.t_wr + p.t_rp,
                _ => 0,
            };
        }
        (DramCommandRecord::Refresh(one), DramCommandRecord::Refresh(other)) => {
            return if one == other { p.t_rfc } else { 0 };
        }
    };
    let group_of = |bank: usize| bank / p.banks_per_group as usize;
    let same_bank = from == to;
    let same_group = group_of(from) == group_of(to) && p.groups > 1;
    let same_rank = rank_of(p, from) == rank_of(p, to);
    let by_group = |long, short| if same_group { long } else { short };
    let is_read = |command| matches!(command, DramCommand::Read | DramCommand::ReadAndPrecharge);
    let closes = |command| {
        matches!(
            command,
            DramCommand::ReadAndPrecharge | DramCommand::WriteAndPrecharge
        )
    };
    match (first, second) {
        (DramCommand::Activate, DramCommand::Activate) if same_bank => p.t_ras + p.t_rp,
        (DramCommand::Activate, DramCommand::Activate) if same_rank => {
            by_group(p.t_rrd_l, p.t_rrd_s)
        }
        (DramCommand::Activate, DramCommand::Precharge) if same_bank => p.t_ras,
        (DramCommand::Activate, column) if same_bank && is_read(column) => p.t_rcd_read,
        (DramCommand::Activate, column) if same_bank && column.is_column() => p.t_rcd_write,
        (DramCommand::Precharge, DramCommand::Activate) if same_bank => p.t_rp,
        (column, DramCommand::Precharge) if same_bank && column.is_column() => {
            match is_read(column) {
                true => p.t_rtp,
                false => p.cwl + p.burst + p.t_wr,
            }
        }
        (column, DramCommand::Activate) if same_bank && closes(column) => match is_read(column) {
            true => p.burst + p.t_rtp + p.t_rp,
            false => p.cwl + p.burst + p.t_wr + p.t_rp,
        },
        (one, other) if one.is_column() && other.is_column() && same_rank => {
            match (is_read(one), is_read(other)) {
                (true, false) => p.cl + p.burst + p.t_rtrs - p.cwl,
                (false, true) => p.cwl + p.burst + by_group(p.t_wtr_l, p.t_wtr_s),
                (true, true) => p.burst.max(by_group(p.t_ccd_l, p.t_ccd_s)),
                (false, false) => p.burst.max(by_group(p.t_ccd_l_write, p.t_ccd_s)),
            }
        }
        // Other ranks: see `buses`.
        _ => 0,
    }
}

/// Checks that rows are opened and closed in turn, and that columns are of the open row.
fn rows(parameters: &DramParameters, log: &[(u64, DramCommandRecord)]) -> Result<(), String> {
    let mut open = vec![None; parameters.banks() as usize];
    for (clock, issued) in log {
        let (command, bank, row) = match issued {
            DramCommandRecord::Bank(command, bank, row) => (*command, *bank, *row),
            DramCommandRecord::Refresh(rank) => {
                let of_rank = |bank: &usize| rank_of(parameters, *bank) == *rank;
                if (0..open.len())
                    .filter(of_rank)
                    .any(|bank| open[bank].is_some())
                {
                    return Err(format!("{issued:?} at {clock} with an open row"));
                }
                continue;
            }
        };
        let fits = match command {
            DramCommand::Activate => open[bank].is_none(),
            DramCommand::Precharge => open[bank].is_some(),
            _ => open[bank] == Some(row),
        };
        if !fits {
            return Err(format!(
                "{issued:?} at {clock} while the open row is {:?}",
                open[bank]
            ));
        }
        open[bank] = match command {
            DramCommand::Activate => Some(row),
            DramCommand::Read | DramCommand::Write => open[bank],
            _ => None,
        };
    }
    Ok(())
}

/// Checks that there is one command per clock, or one for rows and one for columns, and one line at
/// a time on the data bus.
fn buses(parameters: &DramParameters, log: &[(u64, DramCommandRecord)]) -> Result<(), String> {
    let is_column = |issued: &DramCommandRecord| match issued {
        DramCommandRecord::Bank(command, _, _) => command.is_column(),
        DramCommandRecord::Refresh(_) => false,
    };
    for pair in log.windows(2) {
        let both = is_column(&pair[0].1) != is_column(&pair[1].1) && parameters.dual_command;
        if pair[0].0 > pair[1].0 || (pair[0].0 == pair[1].0 && !both) {
            return Err(format!("{:?} and {:?}", pair[0], pair[1]));
        }
    }
    let mut carried: Vec<(u64, usize, bool)> = Vec::new();
    for (clock, issued) in log {
        if let DramCommandRecord::Bank(command, bank, _) = issued
            && command.is_column()
        {
            let read = matches!(command, DramCommand::Read | DramCommand::ReadAndPrecharge);
            let delay = if read { parameters.cl } else { parameters.cwl };
            carried.push((clock + delay, rank_of(parameters, *bank), read));
        }
    }
    carried.sort_unstable();
    for pair in carried.windows(2) {
        let ((first, one, _), (second, other, _)) = (pair[0], pair[1]);
        if second - first < parameters.burst {
            return Err(format!("data of {pair:?} overlap"));
        }
        // Two reads of different ranks leave the bus idle for a moment.
        let reads = pair[0].2 && pair[1].2;
        if one != other && reads && second - first < parameters.burst + parameters.t_rtrs {
            return Err(format!("no time to switch ranks between {pair:?}"));
        }
    }
    Ok(())
}

/// The function that makes a parameter one clock longer.
type Raise = fn(&mut DramParameters);

/// Returns changed parameters. In each, one parameter is a clock longer, and must make `check`
/// object to the traffic: so each has an effect, and is checked.
pub(super) fn raised(parameters: &DramParameters) -> Vec<(&'static str, DramParameters)> {
    let mut list: Vec<(&'static str, Raise)> = vec![
        ("tRCDRD", |p| p.t_rcd_read += 1),
        ("tRCDWR", |p| p.t_rcd_write += 1),
        ("tRRD_S", |p| p.t_rrd_s += 1),
        ("tRRD_L", |p| p.t_rrd_l += 1),
        ("tFAW", |p| p.t_faw += 1),
        ("tRTP", |p| p.t_rtp += 1),
        ("tWR", |p| p.t_wr += 1),
        ("tWTR_S", |p| p.t_wtr_s += 1),
        ("tWTR_L", |p| p.t_wtr_l += 1),
        ("tRTRS", |p| p.t_rtrs += 1),
        ("tRFC", |p| p.t_rfc += 1),
        ("tRP", |p| p.t_rp += 1),
        ("burst", |p| p.burst += 1),
    ];
    if parameters.page == DramPagePolicy::Open {
        list.push(("tRAS", |p| p.t_ras += 1));
        // Writes that close their rows are farther apart.
        list.push(("tCCD_L_WR", |p| p.t_ccd_l_write += 1));
    }
    let raise = |(name, change): (&'static str, Raise)| {
        let mut raised = parameters.clone();
        change(&mut raised);
        (name, raised)
    };
    list.into_iter().map(raise).collect()
}
