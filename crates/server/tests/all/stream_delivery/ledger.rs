//! The requests and replies over all kills, and the check that the server's state fits them.

use super::client::{AckOutcome, DeliveryRecord, text};
use super::stored::{StoredGroup, StoredStream, StoredStreams};
use super::{GROUPS, Id, STREAMS};
use std::collections::{BTreeMap, BTreeSet};

/// An entry in a group: stream, group and id.
type Place = (usize, usize, Id);

/// The requests and replies of all clients.
#[derive(Debug, Default)]
pub struct DeliveryLedger {
    sent: BTreeSet<String>,
    added: BTreeMap<(usize, Id), String>,
    /// The consumers that got an entry as a new one.
    delivered: BTreeMap<Place, Vec<String>>,
    claimed: BTreeMap<Place, Vec<String>>,
    acknowledged: BTreeMap<Place, Vec<AckOutcome>>,
    /// The consumers that may have got entries in replies that never arrived, with the group.
    unanswered: BTreeSet<(usize, String)>,
    /// The last ids of the streams, and the last ids that their groups had got, at the last start
    /// of the server.
    last: [Id; STREAMS],
    last_delivered: [[Id; GROUPS]; STREAMS],
}

impl DeliveryLedger {
    pub fn append(&mut self, told: DeliveryRecord) {
        self.sent.extend(told.sent);
        for (stream, value, id) in told.added {
            let other = self.added.insert((stream, id), value);
            assert_eq!(other, None, "two entries of s{stream} are {}", text(id));
        }
        for place in told.delivered {
            let names = self.delivered.entry(place).or_default();
            names.push(told.name.clone());
        }
        for place in told.claimed {
            let names = self.claimed.entry(place).or_default();
            names.push(told.name.clone());
        }
        for (stream, group, id, how) in told.acknowledged {
            let place = (stream, group, id);
            self.acknowledged.entry(place).or_default().push(how);
        }
        let group = told.unanswered.map(|group| (group, told.name));
        self.unanswered.extend(group);
    }

    /// Notes the stored ids, which may not go back.
    pub fn remember(&mut self, stored: &StoredStreams) {
        self.last = stored.streams.each_ref().map(|stream| stream.last);
        let delivered =
            |stream: &StoredStream| stream.groups.each_ref().map(|group| group.delivered);
        self.last_delivered = stored.streams.each_ref().map(delivered);
    }

    /// Returns the numbers of entries that were added, delivered, claimed, and acknowledged in
    /// groups.
    pub fn totals(&self) -> [usize; 4] {
        let acknowledged = self.acknowledged.values().flatten();
        let counted = acknowledged.filter(|how| **how == AckOutcome::Counted);
        [
            self.added.len(),
            self.delivered.len(),
            self.claimed.len(),
            counted.count(),
        ]
    }

    /// Checks that the stored state follows from the clients' replies.
    pub fn check(&self, stored: &StoredStreams) -> Result<(), String> {
        self.check_told()?;
        let mut values = BTreeSet::new();
        for (number, stream) in stored.streams.iter().enumerate() {
            self.check_entries(number, stream, &mut values)?;
            for (group, found) in stream.groups.iter().enumerate() {
                self.check_group(number, stream, group, found)
                    .map_err(|fault| format!("s{number} g{group}: {fault}"))?;
            }
        }
        Ok(())
    }

    /// Checks the replies by themselves.
    fn check_told(&self) -> Result<(), String> {
        for ((stream, group, id), names) in &self.delivered {
            if names.len() > 1 {
                let id = text(*id);
                return Err(format!("s{stream} {id} was new to {names:?} of g{group}"));
            }
        }
        for ((stream, group, id), all) in &self.acknowledged {
            let counted = all.iter().filter(|how| **how == AckOutcome::Counted);
            if counted.count() > 1 {
                let id = text(*id);
                return Err(format!("s{stream} {id} was acknowledged twice in g{group}"));
            }
        }
        Ok(())
    }

    fn check_entries(
        &self,
        number: usize,
        stream: &StoredStream,
        values: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        if let Some(pair) = stream
            .entries
            .windows(2)
            .find(|pair| pair[0].0 >= pair[1].0)
        {
            return Err(format!("s{number}: ids do not increase: {pair:?}"));
        }
        if stream.last < self.last[number] {
            let (last, before) = (text(stream.last), text(self.last[number]));
            return Err(format!(
                "s{number}: the last id {before} went back to {last}"
            ));
        }
        for (id, value) in &stream.entries {
            if *id > stream.last {
                return Err(format!("s{number}: {} is after the last", text(*id)));
            }
            if !self.sent.contains(value) {
                return Err(format!("s{number} has {value}, which no client has sent"));
            }
            if !values.insert(value.clone()) {
                return Err(format!("s{number} has {value} twice"));
            }
        }
        let entries: BTreeMap<Id, &String> = stream
            .entries
            .iter()
            .map(|(id, value)| (*id, value))
            .collect();
        let own = self
            .added
            .iter()
            .filter(|((stream, _), _)| *stream == number);
        for ((_, id), value) in own {
            if entries.get(id) != Some(&value) {
                return Err(format!("s{number}: {} with {value} is lost", text(*id)));
            }
        }
        Ok(())
    }

    fn check_group(
        &self,
        number: usize,
        stream: &StoredStream,
        group: usize,
        found: &StoredGroup,
    ) -> Result<(), String> {
        let got = self.delivered.keys();
        let got = got.filter(|place| (place.0, place.1) == (number, group));
        let newest = got.map(|place| place.2).max().unwrap_or_default();
        let before = newest.max(self.last_delivered[number][group]);
        if found.delivered < before {
            let (now, before) = (text(found.delivered), text(before));
            return Err(format!("the last delivered id {before} went back to {now}"));
        }
        for (id, _) in &stream.entries {
            let place = (number, group, *id);
            match found.pending.get(id) {
                None if *id <= found.delivered && !self.acknowledged.contains_key(&place) => {
                    return Err(format!("{} is neither pending nor acknowledged", text(*id)));
                }
                None => {}
                Some(pending) => self.check_pending(place, pending, found.delivered)?,
            }
        }
        let entries: BTreeSet<&Id> = stream.entries.iter().map(|(id, _)| id).collect();
        match found.pending.keys().find(|id| !entries.contains(id)) {
            Some(id) => Err(format!("{} is pending and no entry", text(*id))),
            None => Ok(()),
        }
    }

    fn check_pending(
        &self,
        place: Place,
        (holder, times): &(String, i64),
        delivered: Id,
    ) -> Result<(), String> {
        let shown = text(place.2);
        if place.2 > delivered {
            return Err(format!("{shown} is pending though it was not delivered"));
        }
        let all = self.acknowledged.get(&place);
        if all.is_some_and(|all| all.iter().any(|how| *how != AckOutcome::Unanswered)) {
            return Err(format!("{shown} is pending though it was acknowledged"));
        }
        let empty = Vec::new();
        let got = self.delivered.get(&place).unwrap_or(&empty);
        let claimed = self.claimed.get(&place).unwrap_or(&empty);
        let may_hold = got.contains(holder)
            || claimed.contains(holder)
            || self.unanswered.contains(&(place.1, holder.clone()));
        if !may_hold {
            return Err(format!("{shown} is held by {holder}, which never read it"));
        }
        // A reply that never arrived counts, too.
        if *times < 1 + claimed.len() as i64 {
            let claims = claimed.len();
            return Err(format!(
                "{shown} was delivered {times} times after {claims} claims"
            ));
        }
        Ok(())
    }

    /// Checks, once all groups were drained, that each entry was delivered to each group, or is
    /// held by the last client, which has claimed it.
    pub fn check_drained(&self, stored: &StoredStreams) -> Result<(), String> {
        for (number, stream) in stored.streams.iter().enumerate() {
            for group in 0..GROUPS {
                for (id, _) in &stream.entries {
                    let place = (number, group, *id);
                    let came = self.delivered.contains_key(&place)
                        || self.claimed.contains_key(&place)
                        || self.acknowledged.contains_key(&place);
                    if !came {
                        return Err(format!(
                            "s{number} {} was never delivered to g{group}",
                            text(*id)
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> DeliveryRecord {
        DeliveryRecord {
            name: name.to_owned(),
            ..DeliveryRecord::default()
        }
    }

    #[test]
    fn a_second_delivery_without_a_claim_is_noticed() {
        let mut ledger = DeliveryLedger::default();
        for name in ["a", "b"] {
            assert_eq!(ledger.check_told(), Ok(()));
            ledger.append(DeliveryRecord {
                delivered: vec![(0, 0, (1, 0))],
                ..told(name)
            });
        }
        assert!(ledger.check_told().is_err());
        let mut ledger = DeliveryLedger::default();
        ledger.append(DeliveryRecord {
            delivered: vec![(0, 0, (1, 0)), (0, 1, (1, 0))],
            ..told("a")
        });
        ledger.append(DeliveryRecord {
            claimed: vec![(0, 0, (1, 0))],
            ..told("b")
        });
        assert_eq!(ledger.check_told(), Ok(()));
    }

    #[test]
    fn a_second_acknowledgement_is_noticed() {
        for (second, is_right) in [
            (AckOutcome::NotPending, true),
            (AckOutcome::Unanswered, true),
            (AckOutcome::Counted, false),
        ] {
            let mut ledger = DeliveryLedger::default();
            for how in [AckOutcome::Counted, second] {
                ledger.append(DeliveryRecord {
                    acknowledged: vec![(0, 0, (1, 0), how)],
                    ..told("a")
                });
            }
            assert_eq!(ledger.check_told().is_ok(), is_right);
        }
    }

    #[test]
    fn an_entry_that_never_came_is_noticed() {
        let mut stored = StoredStreams::default();
        stored.streams[1].entries.push(((1, 0), "v".to_owned()));
        let mut ledger = DeliveryLedger::default();
        assert!(ledger.check_drained(&stored).is_err());
        ledger.append(DeliveryRecord {
            delivered: (0..GROUPS).map(|group| (1, group, (1, 0))).collect(),
            ..told("a")
        });
        assert_eq!(ledger.check_drained(&stored), Ok(()));
    }

    #[test]
    fn ids_that_do_not_increase_are_noticed() {
        let stream = |second| StoredStream {
            entries: vec![((2, 0), "a".to_owned()), (second, "b".to_owned())],
            last: (9, 0),
            ..StoredStream::default()
        };
        let mut ledger = DeliveryLedger::default();
        ledger.sent.extend(["a".to_owned(), "b".to_owned()]);
        let check = |second| ledger.check_entries(0, &stream(second), &mut BTreeSet::new());
        assert_eq!(check((2, 1)), Ok(()));
        assert!(check((2, 0)).is_err() && check((1, 7)).is_err() && check((9, 1)).is_err());
    }
}
