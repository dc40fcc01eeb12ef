//! The mapping from an address to a place in the memory.

use super::memory::LINE_BYTES;
use super::{DramError, DramParameters};
use std::fmt;
use std::str::FromStr;

/// The place of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DramLocation {
    /// The channel.
    pub channel: u32,
    /// The bank within the channel: ranks, then groups, then banks, counted through.
    pub bank: u32,
    /// The row within the bank.
    pub row: u32,
    /// The line within the row.
    pub column: u32,
}

/// A part of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DramAddressField {
    Channel,
    Rank,
    Group,
    Bank,
    Row,
    Column,
}

impl DramAddressField {
    const ALL: [DramAddressField; 6] = [
        DramAddressField::Channel,
        DramAddressField::Rank,
        DramAddressField::Group,
        DramAddressField::Bank,
        DramAddressField::Row,
        DramAddressField::Column,
    ];

    fn name(self) -> &'static str {
        match self {
            DramAddressField::Channel => "ch",
            DramAddressField::Rank => "ra",
            DramAddressField::Group => "bg",
            DramAddressField::Bank => "ba",
            DramAddressField::Row => "ro",
            DramAddressField::Column => "co",
        }
    }
}

/// The order of the fields in an address, from its highest bits to the lowest above a line's.
///
/// Written as `ro-ch-ra-ba-bg-co`: row, channel, rank, bank, group, column. Dashes may be omitted.
/// Bits above the fields are ignored; [`super::Replay`] refuses or wraps addresses that have them.
///
/// ```
/// use nearfield_hardware::dram::AddressMap;
///
/// let map: AddressMap = "rochrababgco".parse()?;
/// assert_eq!(map, AddressMap::ROWS);
/// assert_eq!(map.to_string(), "ro-ch-ra-ba-bg-co");
/// assert!("ro-ch-ra-ba-bg".parse::<AddressMap>().is_err());
/// # Ok::<(), nearfield_hardware::dram::DramError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMap([DramAddressField; 6]);

impl AddressMap {
    /// `ro-ch-ra-ba-bg-co`: the lines of a row follow each other.
    pub const ROWS: AddressMap = AddressMap([
        DramAddressField::Row,
        DramAddressField::Channel,
        DramAddressField::Rank,
        DramAddressField::Bank,
        DramAddressField::Group,
        DramAddressField::Column,
    ]);
    /// `ro-ba-ra-co-bg-ch`: consecutive lines are in different channels, then in different groups
    /// of banks.
    pub const LINES: AddressMap = AddressMap([
        DramAddressField::Row,
        DramAddressField::Bank,
        DramAddressField::Rank,
        DramAddressField::Column,
        DramAddressField::Group,
        DramAddressField::Channel,
    ]);

    pub(super) fn decoder(self, parameters: &DramParameters) -> DramAddressDecoder {
        let mut shift = LINE_BYTES.trailing_zeros();
        let mut decoder = DramAddressDecoder {
            cut: [AddressFieldBits::default(); 6],
            banks: parameters.groups * parameters.banks_per_group,
            banks_per_group: parameters.banks_per_group,
        };
        for field in self.0.into_iter().rev() {
            let values = match field {
                DramAddressField::Channel => parameters.channels,
                DramAddressField::Rank => parameters.ranks,
                DramAddressField::Group => parameters.groups,
                DramAddressField::Bank => parameters.banks_per_group,
                DramAddressField::Row => parameters.rows,
                DramAddressField::Column => parameters.columns,
            };
            debug_assert!(values.is_power_of_two(), "a field is a number of bits");
            let mask = u64::from(values - 1);
            decoder.cut[field as usize] = AddressFieldBits { shift, mask };
            shift += values.trailing_zeros();
        }
        decoder
    }
}

impl Default for AddressMap {
    fn default() -> AddressMap {
        AddressMap::ROWS
    }
}

impl FromStr for AddressMap {
    type Err = DramError;

    fn from_str(order: &str) -> Result<AddressMap, DramError> {
        let bad = |reason: String| DramError::BadMap {
            order: order.chars().take(80).collect(),
            reason,
        };
        let names = order.replace('-', "").to_ascii_lowercase();
        let named: Vec<&[u8]> = names.as_bytes().chunks(2).collect();
        let mut fields = Vec::new();
        for name in named {
            let field = DramAddressField::ALL
                .into_iter()
                .find(|field| field.name().as_bytes() == name);
            let field = field.ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                bad(format!("{name:?} is not one of ch, ra, bg, ba, ro, co"))
            })?;
            if fields.contains(&field) {
                return Err(bad(format!("{} appears twice", field.name())));
            }
            fields.push(field);
        }
        let missing = DramAddressField::ALL
            .into_iter()
            .find(|field| !fields.contains(field));
        // No field appears twice, so six fields are all of them.
        match (missing, fields.try_into()) {
            (None, Ok(fields)) => Ok(AddressMap(fields)),
            (missing, _) => Err(bad(format!(
                "{} is missing",
                missing.map_or("", DramAddressField::name)
            ))),
        }
    }
}

impl fmt::Display for AddressMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.map(DramAddressField::name);
        formatter.write_str(&names.join("-"))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct AddressFieldBits {
    shift: u32,
    mask: u64,
}

/// An address map with the sizes of a memory.
#[derive(Clone, Debug)]
pub(super) struct DramAddressDecoder {
    /// The fields, indexed by `DramAddressField as usize`.
    cut: [AddressFieldBits; 6],
    banks: u32,
    banks_per_group: u32,
}

impl DramAddressDecoder {
    pub(super) fn place(&self, address: u64) -> DramLocation {
        // A shift by 64 or more leaves no bits: the fields are then above the address.
        let [channel, rank, group, bank, row, column] = self.cut.map(|cut| {
            let shifted = address.checked_shr(cut.shift).unwrap_or(0);
            (shifted & cut.mask) as u32
        });
        // Banks are counted through, so that queues and timings are indexed by one number.
        DramLocation {
            channel,
            bank: rank * self.banks + group * self.banks_per_group + bank,
            row,
            column,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::DramPreset;
    use super::*;

    #[test]
    fn fields_are_cut_in_order() {
        let parameters = DramPreset::Ddr4X8.parameters();
        let decoder = AddressMap::ROWS.decoder(&parameters);
        // 6 bits within a line, 7 of the lines in a row, 2 of the group, 2 of the bank, 1 of the
        // channel.
        let place = decoder.place(5 << 18 | 1 << 17 | 2 << 15 | 1 << 13 | 3 << 6);
        assert_eq!(
            place,
            DramLocation {
                channel: 1,
                bank: 4 + 2,
                row: 5,
                column: 3
            }
        );
        let lines = AddressMap::LINES.decoder(&parameters);
        let place = lines.place(1 << 18 | 2 << 16 | 3 << 9 | 1 << 7 | 1 << 6);
        assert_eq!(
            place,
            DramLocation {
                channel: 1,
                bank: 4 + 2,
                row: 1,
                column: 3
            }
        );
    }

    #[test]
    fn all_lines_have_places_of_their_own() {
        let mut parameters = DramPreset::Hbm2.parameters();
        parameters.rows = 8;
        for map in [AddressMap::ROWS, AddressMap::LINES] {
            let decoder = map.decoder(&parameters);
            let lines = 8 * 16 * 8 * 32;
            let places: std::collections::HashSet<_> =
                (0..lines).map(|line| decoder.place(line * 64)).collect();
            assert_eq!(places.len() as u64, lines);
        }
    }

    #[test]
    fn wrong_orders_are_explained() {
        let wrong = |order: &str| order.parse::<AddressMap>().unwrap_err().to_string();
        assert!(wrong("ro-ch-ra-ba-bg").ends_with("co is missing"));
        assert!(wrong("ro-ch-ra-ba-bg-ro").ends_with("ro appears twice"));
        assert!(wrong("ro-ch-ra-ba-bg-xx").contains("\"xx\" is not one of"));
        assert!(wrong("").ends_with("ch is missing"));
        assert!(wrong("ü").contains("is not one of"));
        assert!("RO-BA-RA-CO-BG-CH".parse::<AddressMap>().is_ok());
    }
}
