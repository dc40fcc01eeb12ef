//! `nearfield nodes`: lists the memory nodes.

use clap::Args;
use nearfield_fabric::membership::{EtcdMembers, MemberNode, NodeMembership, VERSION};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Show the memory nodes that are registered in etcd, or in a list.
///
/// A node is shown while its registration in etcd exists, even if it cannot be reached from here.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct NodesArguments {
    #[command(flatten)]
    source: NodeListSource,

    /// Print an array of JSON in place of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct NodeListSource {
    /// The members of etcd: URLs, separated by commas
    #[arg(long, value_name = "URLS")]
    etcd: Option<EtcdMembers>,

    /// The nodes themselves, [NUMBER=]shm:NAME or [NUMBER=]ucx:HOST:PORT, separated by commas;
    /// without a number, its position in the list counts, from 0
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield nodes --etcd http://a:2379,http://b:2379,http://c:2379
      Any reachable member is used.
  nearfield nodes --etcd http://a:2379 --json | jq -r '.[].address'
  nearfield nodes --nodes shm:left,7=ucx:mn1.example:7000
      The meaning of a list: left is node 0, and the other is node 7.";

/// A node in JSON.
#[derive(Serialize)]
struct NodeListRow {
    number: u16,
    name: String,
    address: String,
    /// Size of the node's memory; unknown for nodes in a list.
    bytes: Option<u64>,
    /// Version of the registration; unknown for nodes in a list.
    version: Option<u64>,
    /// Incarnation in hexadecimal; unknown for nodes in a list.
    incarnation: Option<String>,
}

impl From<MemberNode> for NodeListRow {
    fn from(node: MemberNode) -> NodeListRow {
        let registered = node.bytes.is_some();
        NodeListRow {
            number: node.number.0,
            name: node.name,
            address: node.address.to_string(),
            bytes: node.bytes,
            version: registered.then_some(VERSION),
            incarnation: registered.then(|| format!("{:016x}", node.incarnation)),
        }
    }
}

/// Prints the nodes. If some registrations cannot be read, prints the others and fails.
pub(crate) fn run(arguments: &NodesArguments) -> ExitCode {
    match show(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(arguments: &NodesArguments) -> Result<bool, Box<dyn std::error::Error>> {
    let membership = match &arguments.source.etcd {
        Some(members) => NodeMembership::follow(members)?,
        None => NodeMembership::of_list(arguments.source.nodes.as_deref().unwrap_or_default())?,
    };
    let rows: Vec<NodeListRow> = membership
        .nodes()
        .into_iter()
        .map(NodeListRow::from)
        .collect();
    let text = if arguments.json {
        serde_json::to_string_pretty(&rows)? + "\n"
    } else {
        table(&rows)
    };
    // The reader of the output may have closed it.
    let _ = write!(std::io::stdout(), "{text}");
    let refused = membership.refused();
    for error in &refused {
        eprintln!("error: {error}");
    }
    Ok(refused.is_empty())
}

fn table(rows: &[NodeListRow]) -> String {
    if rows.is_empty() {
        return "There are no memory nodes.\n".to_owned();
    }
    let unknown = || "-".to_owned();
    let cells = |row: &NodeListRow| {
        [
            row.number.to_string(),
            row.name.clone(),
            row.address.clone(),
            row.bytes.map_or_else(unknown, |bytes| bytes.to_string()),
            row.version.map_or_else(unknown, |found| found.to_string()),
            row.incarnation.clone().unwrap_or_else(unknown),
        ]
    };
    let title = [
        "NUMBER",
        "NAME",
        "ADDRESS",
        "BYTES",
        "VERSION",
        "INCARNATION",
    ];
    let mut lines = vec![title.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let mut widths = [0; 6];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            padded += &format!("{cell:width$}  ");
        }
        text += padded.trim_end();
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_columns() {
        let nodes = NodeMembership::of_list("shm:left,700=ucx:[::1]:7000").unwrap();
        let mut rows: Vec<_> = nodes.nodes().into_iter().map(NodeListRow::from).collect();
        rows[0].bytes = Some(1 << 33);
        let expected = "\
NUMBER  NAME      ADDRESS         BYTES       VERSION  INCARNATION
0       left      shm:left        8589934592  -        -
700     ..1-7000  ucx:[::1]:7000  -           -        -
";
        assert_eq!(table(&rows), expected);
        assert_eq!(table(&[]), "There are no memory nodes.\n");
    }
}
