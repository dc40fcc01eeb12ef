//! The mapping from an address to a place in the memory.

use super::memory::LINE_BYTES;
use super::{Error, Parameters};
use std::fmt;
use std::str::FromStr;

/// The place of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
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
enum Field {
    Channel,
    Rank,
    Group,
    Bank,
    Row,
    Column,
}

impl Field {
    const ALL: [Field; 6] = [
        Field::Channel,
        Field::Rank,
        Field::Group,
        Field::Bank,
        Field::Row,
        Field::Column,
    ];

    fn name(self) -> &'static str {
        match self {
            Field::Channel => "ch",
            Field::Rank => "ra",
            Field::Group => "bg",
            Field::Bank => "ba",
            Field::Row => "ro",
            Field::Column => "co",
        }
    }
}

/// The order of the fields in an address, from its highest bits to the lowest above a line's.
///
/// Written as `ro-ch-ra-ba-bg-co`: row, channel, rank, bank, group, column. Dashes may be omitted.
/// Bits above the fields are ignored.
///
/// ```
/// use nearfield_hardware::dram::AddressMap;
///
/// let map: AddressMap = "rochrababgco".parse()?;
/// assert_eq!(map, AddressMap::ROWS);
/// assert_eq!(map.to_string(), "ro-ch-ra-ba-bg-co");
/// assert!("ro-ch-ra-ba-bg".parse::<AddressMap>().is_err());
/// # Ok::<(), nearfield_hardware::dram::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMap([Field; 6]);

impl AddressMap {
    /// `ro-ch-ra-ba-bg-co`: the lines of a row follow each other.
    pub const ROWS: AddressMap = AddressMap([
        Field::Row,
        Field::Channel,
        Field::Rank,
        Field::Bank,
        Field::Group,
        Field::Column,
    ]);
    /// `ro-ba-ra-co-bg-ch`: consecutive lines are in different channels, then in different groups
    /// of banks.
    pub const LINES: AddressMap = AddressMap([
        Field::Row,
        Field::Bank,
        Field::Rank,
        Field::Column,
        Field::Group,
        Field::Channel,
    ]);

    pub(super) fn decoder(self, parameters: &Parameters) -> Decoder {
        let mut shift = LINE_BYTES.trailing_zeros();
        let mut decoder = Decoder {
            cut: [Cut::default(); 6],
            banks: parameters.groups * parameters.banks_per_group,
            banks_per_group: parameters.banks_per_group,
        };
        for field in self.0.into_iter().rev() {
            let values = match field {
                Field::Channel => parameters.channels,
                Field::Rank => parameters.ranks,
                Field::Group => parameters.groups,
                Field::Bank => parameters.banks_per_group,
                Field::Row => parameters.rows,
                Field::Column => parameters.columns,
            };
            let mask = u64::from(values - 1);
            decoder.cut[field as usize] = Cut { shift, mask };
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
    type Err = Error;

    fn from_str(order: &str) -> Result<AddressMap, Error> {
        let bad = |reason: String| Error::BadMap {
            order: order.chars().take(80).collect(),
            reason,
        };
        let names = order.replace('-', "").to_ascii_lowercase();
        let named: Vec<&[u8]> = names.as_bytes().chunks(2).collect();
        let mut fields = Vec::new();
        for name in named {
            let field = Field::ALL
                .into_iter()
                .find(|field| field.name().as_bytes() == name);
            let field = field.ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                bad(format!("{name:?} is none of ch, ra, bg, ba, ro, co"))
            })?;
            if fields.contains(&field) {
                return Err(bad(format!("{} is there twice", field.name())));
            }
            fields.push(field);
        }
        let missing = Field::ALL.into_iter().find(|field| !fields.contains(field));
        match (missing, fields.try_into()) {
            (None, Ok(fields)) => Ok(AddressMap(fields)),
            (missing, _) => Err(bad(format!(
                "{} is missing",
                missing.map_or("", Field::name)
            ))),
        }
    }
}

impl fmt::Display for AddressMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.map(Field::name);
        formatter.write_str(&names.join("-"))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    shift: u32,
    mask: u64,
}

/// An address map with the sizes of a memory.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    /// The fields, indexed by `Field as usize`.
    cut: [Cut; 6],
    banks: u32,
    banks_per_group: u32,
}

impl Decoder {
    pub(super) fn place(&self, address: u64) -> Place {
        // A shift by 64 or more leaves no bits: the fields are then above the address.
        let [channel, rank, group, bank, row, column] = self.cut.map(|cut| {
            let shifted = address.checked_shr(cut.shift).unwrap_or(0);
            (shifted & cut.mask) as u32
        });
        Place {
            channel,
            bank: rank * self.banks + group * self.banks_per_group + bank,
            row,
            column,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn fields_are_cut_in_order() {
        let parameters = Preset::Ddr4X8.parameters();
        let decoder = AddressMap::ROWS.decoder(&parameters);
        // 6 bits within a line, 7 of the lines in a row, 2 of the group, 2 of the bank, 1 of the
        // channel.
        let place = decoder.place(5 << 18 | 1 << 17 | 2 << 15 | 1 << 13 | 3 << 6);
        assert_eq!(
            place,
            Place {
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
            Place {
                channel: 1,
                bank: 4 + 2,
                row: 1,
                column: 3
            }
        );
    }

    #[test]
    fn all_lines_have_places_of_their_own() {
        let mut parameters = Preset::Hbm2.parameters();
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
        assert!(wrong("ro-ch-ra-ba-bg-ro").ends_with("ro is there twice"));
        assert!(wrong("ro-ch-ra-ba-bg-xx").contains("\"xx\" is none of"));
        assert!(wrong("").ends_with("ch is missing"));
        assert!(wrong("ü").contains("is none of"));
        assert!("RO-BA-RA-CO-BG-CH".parse::<AddressMap>().is_ok());
    }
}
