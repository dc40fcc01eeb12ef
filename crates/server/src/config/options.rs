//! The options that a server is started with, from its command line and its configuration file.

use super::{ConfigFileContents, Durability};
use crate::access_trace::AccessTrace;
use crate::keyspace::Home;
use nearfield_tiers::policy::{AdmSettings, PolicyChoice};
use nearfield_tiers::{ParseError, Specification, Tiers};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The port for plain TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenPort {
    /// No port: there is no plain TCP.
    Off,
    /// A port that the system chooses.
    Free,
    /// This port, which is not 0.
    At(u16),
}

/// The conversion from the parameter `port`, of which 0 turns plain TCP off.
impl From<u16> for ListenPort {
    fn from(port: u16) -> ListenPort {
        match port {
            0 => ListenPort::Off,
            port => ListenPort::At(port),
        }
    }
}

impl ListenPort {
    /// Returns the number as `port` shows it: 0 also for a port that the system has yet to choose.
    pub fn number(self) -> u16 {
        match self {
            ListenPort::Off | ListenPort::Free => 0,
            ListenPort::At(port) => port,
        }
    }
}

/// The options that a server is started with.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The addresses to listen on.
    pub bind: Vec<BindAddress>,
    /// The port to listen on.
    pub port: ListenPort,
    /// The number of threads that serve connections.
    pub threads: usize,
    /// The password of the default user. Without it, none is needed.
    pub password: Option<Vec<u8>>,
    /// The file of users, if there is one.
    pub acl_file: Option<PathBuf>,
    /// True if connections from other machines are refused while there is no password.
    pub protected: bool,
    /// The values of a configuration file, for parameters that the fields above do not set.
    pub settings: ConfigFileContents,
    /// The options for files.
    pub persistence: Durability,
    /// The placement of the keys.
    pub home: Home,
    /// The tiers of values. Without tiers, values are in one memory without limit.
    pub tiers: Option<Arc<Tiers>>,
    /// The policy by which values move between tiers.
    pub tier_policy: PolicyChoice,
    /// The trace that accesses of commands are added to, if there is one.
    pub access_trace: Option<Arc<AccessTrace>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            bind: vec![IpAddr::from(Ipv4Addr::LOCALHOST).into()],
            port: ListenPort::At(6399),
            threads: default_threads(),
            password: None,
            acl_file: None,
            protected: true,
            settings: ConfigFileContents::default(),
            persistence: Durability::default(),
            home: Home::Local,
            tiers: None,
            tier_policy: PolicyChoice::default(),
            access_trace: None,
        }
    }
}

impl ServerOptions {
    /// Returns the options of a server that is started without options on the command line: those
    /// of the file, and the defaults.
    ///
    /// # Errors
    /// An address does not parse.
    pub fn from_settings(settings: ConfigFileContents) -> Result<ServerOptions, String> {
        let mut options = ServerOptions::default();
        if let Some(addresses) = settings.value("bind") {
            options.bind = bind_addresses(addresses)?;
        }
        let number = |name| {
            settings
                .value(name)
                .and_then(|value| value.parse::<u16>().ok())
        };
        if let Some(port) = number("port") {
            options.port = port.into();
        }
        if let Some(threads) = number("io-threads") {
            options.threads = usize::from(threads);
        }
        // As in Redis, an empty value is the same as none.
        let text = |name| settings.value(name).filter(|value| !value.is_empty());
        let password = settings.bytes("requirepass");
        options.password = password.filter(|it| !it.is_empty()).map(<[u8]>::to_vec);
        options.acl_file = text("aclfile").map(PathBuf::from);
        // Anything but `no` keeps the protection.
        options.protected = settings.value("protected-mode") != Some("no");
        options.settings = settings;
        Ok(options)
    }

    /// Opens the tiers of `given` or, if it is empty, those that the settings name, and sets their
    /// policy.
    ///
    /// # Errors
    /// The tiers are in an invalid order or not available, or the placement has none, or the policy
    /// is not for them.
    pub fn open_tiers(&mut self, given: &[Specification]) -> Result<(), String> {
        let words = self.settings.value("tier").unwrap_or_default();
        let named: Result<Vec<Specification>, ParseError> =
            words.split_whitespace().map(str::parse).collect();
        let named = named.map_err(|error| error.to_string())?;
        let tiers = if given.is_empty() { &named } else { given };
        let choice = policy_choice(&self.settings);
        if choice != PolicyChoice::Adaptive && tiers.len() != ADM_TIERS {
            return Err(format!(
                "--tier-policy {} is for {ADM_TIERS} tiers, a fast and a slow one; there are {}",
                choice.name(),
                tiers.len()
            ));
        }
        self.tier_policy = choice;
        if tiers.is_empty() {
            return Ok(());
        }
        if !matches!(self.home, Home::Local) {
            return Err(format!(
                "--tier is for --placement local: with {} the values are not in the memory of this \
                 process",
                self.home.name()
            ));
        }
        let tiers = Tiers::open(tiers).map_err(|error| error.to_string())?;
        for note in tiers.notes() {
            tracing::warn!("{note}");
        }
        self.tiers = Some(Arc::new(tiers));
        Ok(())
    }

    /// Creates the access trace, if the settings name a file for it.
    ///
    /// # Errors
    /// The file cannot be created, or the placement has no trace.
    pub fn open_access_trace(&mut self) -> Result<(), String> {
        let path = self.settings.value("access-trace").unwrap_or_default();
        if path.is_empty() {
            return Ok(());
        }
        if !matches!(self.home, Home::Local) {
            return Err("--access-trace is for --placement local".into());
        }
        let trace = AccessTrace::create(Path::new(path));
        let trace = trace.map_err(|error| format!("cannot create {path}: {error}"))?;
        self.access_trace = Some(Arc::new(trace));
        Ok(())
    }

    /// Refuses settings that are not possible with the placement.
    ///
    /// # Errors
    /// The option, and the reason.
    pub fn check_placement(&self) -> Result<(), String> {
        if !self.home.is_shared() {
            return Ok(());
        }
        let mut kept = self.persistence.clone();
        // The file may turn on what the command line leaves open.
        kept.complete(&self.settings);
        if kept.log() || !kept.save_points().is_empty() {
            return Err(
                "keys in a pool stay there when the server ends: with --placement pool there is no \
                 --dir, --appendonly or save"
                    .into(),
            );
        }
        for setting in &self.settings.values {
            check_setting(&setting.name, &String::from_utf8_lossy(&setting.value))?;
        }
        Ok(())
    }
}

/// Number of tiers of ADM's policy.
const ADM_TIERS: usize = 2;
/// The time between two walks of ADM's policy over the memory tier, if none is given. *Assumed*, as
/// the thresholds are: the paper gives no numbers.
const ADM_INTERVAL_MS: u32 = 10_000;

/// Returns the policy of tiers that the settings name.
fn policy_choice(settings: &ConfigFileContents) -> PolicyChoice {
    let name = settings.value("tier-policy").unwrap_or_default();
    if !name.eq_ignore_ascii_case("adm") {
        return PolicyChoice::Adaptive;
    }
    // The numbers were checked when they were added.
    let number = |name: &str, default: u32| {
        let given = settings.value(name).and_then(|value| value.parse().ok());
        given.unwrap_or(default)
    };
    let default = AdmSettings::default();
    let threshold_in = number("adm-threshold-in", default.threshold_in.into());
    let threshold_out = number("adm-threshold-out", default.threshold_out);
    let interval_ms = number("adm-interval-ms", ADM_INTERVAL_MS);
    PolicyChoice::Adm {
        settings: AdmSettings::with_thresholds(
            u8::try_from(threshold_in).unwrap_or(u8::MAX),
            threshold_out,
        ),
        interval: Duration::from_millis(interval_ms.into()),
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress {
    /// The address.
    pub ip: IpAddr,
    /// True if the machine need not have the address.
    pub optional: bool,
}

impl From<IpAddr> for BindAddress {
    fn from(ip: IpAddr) -> BindAddress {
        BindAddress {
            ip,
            optional: false,
        }
    }
}

/// The form in which `bind` names an address.
impl fmt::Display for BindAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = if self.optional { "-" } else { "" };
        write!(formatter, "{dash}{}", self.ip)
    }
}

/// The maximum number of addresses that `bind` names, as in Redis.
pub const BIND_ADDRESSES_MAX: usize = 16;

/// Parses addresses as `bind` names them. A dash before one means that the machine need not have
/// it.
///
/// # Errors
/// An address that does not parse. Names other than `localhost` are not resolved.
pub fn bind_addresses(text: &str) -> Result<Vec<BindAddress>, String> {
    let address = |word: &str| {
        let (word, optional) = match word.strip_prefix('-') {
            Some(word) => (word, true),
            None => (word, false),
        };
        let ip = match word {
            // As in Redis, each of these stands for one protocol.
            "*" => Ipv4Addr::UNSPECIFIED.into(),
            "::*" => Ipv6Addr::UNSPECIFIED.into(),
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            word => word
                .parse()
                .map_err(|_| format!("bind: '{word}' is not an address"))?,
        };
        Ok(BindAddress { ip, optional })
    };
    text.split_whitespace().map(address).collect()
}

/// Refuses a setting that is not possible with keys that other servers change, too.
///
/// # Errors
/// The setting, and the reason.
pub fn check_setting(name: &str, value: &str) -> Result<(), String> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let why = if is("maxmemory") && value != "0" {
        "the memory is that of the pool's nodes"
    } else if is("notify-keyspace-events") && !value.is_empty() {
        "a server does not see the changes of other servers"
    } else if is("appendonly") && value != "no" || is("save") && !value.is_empty() {
        "keys in a pool stay there when the server ends"
    } else {
        return Ok(());
    };
    Err(format!(
        "{name} is not possible with the placement pool: {why}"
    ))
}

/// Returns the default number of threads: one less than there are cores, at most eight.
pub fn default_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Clients on the same machine need a core, too.
    cores.saturating_sub(1).clamp(1, 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFileSetting, ConfigParameters};

    #[test]
    fn files_say_how_the_server_is_started() {
        let values = [
            ("bind", "127.0.0.1 ::1"),
            ("port", "7000"),
            ("io-threads", "3"),
            ("requirepass", "secret"),
            ("protected-mode", "no"),
        ];
        let values = values.map(|(name, value)| ConfigFileSetting {
            name: name.into(),
            value: value.into(),
        });
        let settings = ConfigFileContents {
            values: values.to_vec(),
            ..ConfigFileContents::default()
        };
        let options = ServerOptions::from_settings(settings).unwrap();
        assert_eq!(options.bind.len(), 2);
        let port = ListenPort::At(7000);
        assert_eq!((options.port, options.threads), (port, 3));
        assert_eq!(options.password.as_deref(), Some(&b"secret"[..]));
        assert!(!options.protected);
    }

    #[test]
    fn adms_policy_is_for_two_tiers_and_has_the_defaults_that_are_shown() {
        let opened = |tiers: &[&str], lines: &[(&str, &str)]| {
            let mut settings = ConfigFileContents::default();
            for tier in tiers {
                settings.add("tier", *tier).unwrap();
            }
            for (name, value) in lines {
                settings.add(name, *value).unwrap();
            }
            let mut options = ServerOptions::from_settings(settings).unwrap();
            options.open_tiers(&[]).map(|()| options)
        };
        let choice = |tiers: &[&str], lines: &[(&str, &str)]| {
            let options = opened(tiers, lines);
            options.ok().map(|options| options.tier_policy)
        };
        let two = ["memory=1mb", "compressed=1mb"];
        let adm = |threshold_in, interval_ms| PolicyChoice::Adm {
            settings: AdmSettings::with_thresholds(threshold_in, 13),
            interval: Duration::from_millis(interval_ms),
        };
        assert_eq!(choice(&two, &[]), Some(PolicyChoice::Adaptive));
        assert_eq!(choice(&[], &[]), Some(PolicyChoice::Adaptive));
        let by_adm = ("tier-policy", "ADM");
        assert_eq!(choice(&two, &[by_adm]), Some(adm(9, 10_000)));
        let given = [
            by_adm,
            ("adm-threshold-in", "20"),
            ("adm-interval-ms", "500"),
        ];
        assert_eq!(choice(&two, &given), Some(adm(20, 500)));
        assert_eq!(choice(&two[..1], &[by_adm]), None);
        assert_eq!(choice(&[], &[by_adm]), None);
        let config = ConfigParameters::new(&opened(&two, &given).unwrap());
        let shown = |name| config.text(name);
        assert_eq!(shown("tier-policy"), "adm");
        assert_eq!(shown("adm-threshold-in"), "20");
        // Those that are not given are those of the parameters.
        let config = ConfigParameters::new(&opened(&two, &[by_adm]).unwrap());
        let defaults = ConfigParameters::new(&ServerOptions::default());
        for name in ["adm-threshold-in", "adm-threshold-out", "adm-interval-ms"] {
            assert_eq!(config.text(name), defaults.text(name), "{name}");
        }
    }
}
