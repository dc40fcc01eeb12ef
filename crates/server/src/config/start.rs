//! What a configuration file says of how the server is started.

use super::Settings;
use crate::server::Options;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

impl Options {
    /// What a server is started with if the command line says nothing: what the file says, and
    /// the defaults.
    ///
    /// # Errors
    /// An address is none.
    pub fn from_settings(settings: Settings) -> Result<Options, String> {
        let mut options = Options::default();
        if let Some(addresses) = settings.value("bind") {
            options.bind = addresses
                .split_whitespace()
                .map(address)
                .collect::<Result<_, _>>()?;
        }
        let number = |name| settings.value(name).and_then(|value| value.parse().ok());
        if let Some(port) = number("port") {
            options.port = port;
        }
        if let Some(threads) = number("io-threads") {
            options.threads = usize::from(threads);
        }
        let text = |name| settings.value(name).filter(|value| !value.is_empty());
        options.password = text("requirepass").map(str::to_owned);
        options.acl_file = text("aclfile").map(PathBuf::from);
        options.protected = settings.value("protected-mode") != Some("no");
        options.settings = settings;
        Ok(options)
    }
}

/// Reads an address as `bind` names it; a dash before it means that it may be missing.
fn address(word: &str) -> Result<IpAddr, String> {
    match word.strip_prefix('-').unwrap_or(word) {
        "*" => Ok(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Ok(Ipv6Addr::UNSPECIFIED.into()),
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        word => word
            .parse()
            .map_err(|_| format!("bind: '{word}' is not an address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Setting;

    #[test]
    fn files_say_how_the_server_is_started() {
        let values = [
            ("bind", "127.0.0.1 ::1"),
            ("port", "7000"),
            ("io-threads", "3"),
            ("requirepass", "secret"),
            ("protected-mode", "no"),
        ];
        let values = values.map(|(name, value)| Setting {
            name: name.into(),
            value: value.into(),
        });
        let settings = Settings {
            file: None,
            values: values.to_vec(),
        };
        let options = Options::from_settings(settings).unwrap();
        assert_eq!(options.bind.len(), 2);
        assert_eq!((options.port, options.threads), (7000, 3));
        assert_eq!(options.password.as_deref(), Some("secret"));
        assert!(!options.protected);
    }
}
