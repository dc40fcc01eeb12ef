//! The eviction policies, by their names in `maxmemory-policy`.

/// The policy that selects keys to evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// No key: commands that may take memory are refused.
    #[default]
    NoEviction,
    /// The keys that have not been used for the longest time.
    AllKeysLru,
    /// The least frequently used keys.
    AllKeysLfu,
    /// Any keys.
    AllKeysRandom,
    /// The keys that have not been used for the longest time, of those that expire.
    VolatileLru,
    /// The least frequently used keys, of those that expire.
    VolatileLfu,
    /// Any keys that expire.
    VolatileRandom,
    /// The keys that expire soonest.
    VolatileTtl,
}

impl Policy {
    /// The policies, by their numbers.
    pub const ALL: [Policy; 8] = [
        Policy::NoEviction,
        Policy::AllKeysLru,
        Policy::AllKeysLfu,
        Policy::AllKeysRandom,
        Policy::VolatileLru,
        Policy::VolatileLfu,
        Policy::VolatileRandom,
        Policy::VolatileTtl,
    ];

    /// Returns the policy's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Policy::NoEviction => "noeviction",
            Policy::AllKeysLru => "allkeys-lru",
            Policy::AllKeysLfu => "allkeys-lfu",
            Policy::AllKeysRandom => "allkeys-random",
            Policy::VolatileLru => "volatile-lru",
            Policy::VolatileLfu => "volatile-lfu",
            Policy::VolatileRandom => "volatile-random",
            Policy::VolatileTtl => "volatile-ttl",
        }
    }

    /// Returns the policy of a name in any case.
    pub fn parse(name: &str) -> Option<Policy> {
        let is = |policy: &Policy| policy.name().eq_ignore_ascii_case(name);
        Policy::ALL.into_iter().find(is)
    }

    pub(super) fn from_number(number: u8) -> Policy {
        let policy = Policy::ALL.get(usize::from(number));
        policy.copied().unwrap_or_default()
    }

    /// Returns true if only keys that expire are evicted.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }

    /// Returns true if keys are evicted by the frequency of their use.
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        for policy in Policy::ALL {
            assert_eq!(Policy::parse(policy.name()), Some(policy));
            assert_eq!(Policy::from_number(policy as u8), policy);
        }
        assert_eq!(Policy::parse("AllKeys-LRU"), Some(Policy::AllKeysLru));
        assert_eq!(Policy::parse("lru"), None);
    }
}
