//! The eviction policies, by their names in `maxmemory-policy`.

/// Which keys are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// None: commands that may take memory are refused.
    #[default]
    NoEviction,
    /// Those that have not been used for long.
    AllKeysLru,
    /// Those that are used seldom.
    AllKeysLfu,
    /// Any.
    AllKeysRandom,
    /// Of those that expire, those that have not been used for long.
    VolatileLru,
    /// Of those that expire, those that are used seldom.
    VolatileLfu,
    /// Any that expire.
    VolatileRandom,
    /// Those that expire soonest.
    VolatileTtl,
}

impl Policy {
    /// All policies, by their numbers.
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

    /// The policy's name in the configuration.
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

    /// The policy of a name in any case.
    pub fn parse(name: &str) -> Option<Policy> {
        let is = |policy: &Policy| policy.name().eq_ignore_ascii_case(name);
        Policy::ALL.into_iter().find(is)
    }

    pub(super) fn from_number(number: u8) -> Policy {
        let policy = Policy::ALL.get(usize::from(number));
        policy.copied().unwrap_or_default()
    }

    /// True if only keys that expire are evicted.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }

    /// True if keys go by how often they are used.
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
