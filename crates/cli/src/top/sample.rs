//! A server's state at one time.

use crate::client::{CliClient, CliReply};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A server's state at one time.
#[derive(Debug)]
pub struct TopSample {
    /// Numbers by metric, then by the value of their label; those of histograms by the upper bound
    /// of the bucket, too.
    metrics: BTreeMap<String, Vec<(TopMetricLabels, f64)>>,
    /// The most used keys, each with database and uses per second.
    pub hot_keys: Vec<(Vec<u8>, u64, u64)>,
    /// The time of the sample.
    pub at: Duration,
}

#[derive(Debug, Default, PartialEq)]
struct TopMetricLabels {
    /// The value of the label other than `le`.
    value: String,
    /// The bucket's upper bound.
    bound: Option<f64>,
}

const HOT_KEYS: &str = "12";

impl TopSample {
    /// Queries a server for a sample.
    pub fn take(client: &mut CliClient) -> io::Result<TopSample> {
        let wrong = || io::Error::new(ErrorKind::InvalidData, "a reply of another form");
        let CliReply::Text(text) = client.command(&["METRICS"])? else {
            return Err(wrong());
        };
        let CliReply::Array(keys) = client.command(&["HOTKEYS", HOT_KEYS])? else {
            return Err(wrong());
        };
        let hot_key = |reply: &CliReply| match reply.elements() {
            [key, database, uses] => {
                Some((key.text()?.to_vec(), database.number()?, uses.number()?))
            }
            _ => None,
        };
        let hot_keys = keys.iter().filter_map(hot_key).collect();
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let text = String::from_utf8_lossy(&text);
        Ok(TopSample::parse(&text, hot_keys, at.unwrap_or_default()))
    }

    /// Reads metrics in the text format of Prometheus.
    pub fn parse(text: &str, hot_keys: Vec<(Vec<u8>, u64, u64)>, at: Duration) -> TopSample {
        let mut metrics: BTreeMap<String, Vec<(TopMetricLabels, f64)>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // Labels may have blanks, but a number has none.
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(value) = value.parse() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let mut found = TopMetricLabels::default();
            for label in labels.trim_end_matches('}').split(',') {
                match label.split_once('=') {
                    Some(("le", bound)) => {
                        let bound = bound.trim_matches('"').trim_start_matches('+');
                        found.bound = bound.parse().ok();
                    }
                    Some((_, value)) => found.value = value.trim_matches('"').to_owned(),
                    None => {}
                }
            }
            metrics
                .entry(name.to_owned())
                .or_default()
                .push((found, value));
        }
        TopSample {
            metrics,
            hot_keys,
            at,
        }
    }

    fn all(&self, name: &str) -> &[(TopMetricLabels, f64)] {
        self.metrics.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the sum of a metric over all labels.
    pub fn sum(&self, name: &str) -> f64 {
        self.all(name).iter().map(|(_, value)| value).sum()
    }

    /// Returns the values of a metric by label.
    pub fn by_label(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        let all = self.all(name).iter();
        all.map(|(labels, value)| (labels.value.as_str(), *value))
    }

    /// Returns the value of a metric for a label; 0 if there is none.
    pub fn of(&self, name: &str, label: &str) -> f64 {
        let mut all = self.by_label(name);
        all.find(|(value, _)| *value == label)
            .map_or(0.0, |it| it.1)
    }

    /// Returns the buckets of a histogram for a label: each upper bound with the number of values
    /// at or below it.
    pub fn buckets(&self, name: &str, label: &str) -> Vec<(f64, f64)> {
        let of = self.all(name).iter().filter(|it| it.0.value == label);
        of.filter_map(|(labels, count)| Some((labels.bound?, *count)))
            .collect()
    }
}
