//! `nearfield top`: live view of a server's work.

mod panel;
mod sample;
mod view;

use crate::client::{CliClient, ConnectArguments};
use clap::Args;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use sample::TopSample;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::TopView;

/// Show a server's work: commands, latencies, batches, memory and hot keys. `q` ends it.
#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    address: ConnectArguments,
    /// Print one screen as text, covering one second, and exit.
    #[arg(long)]
    once: bool,
}

const EVERY: Duration = Duration::from_secs(1);
/// Columns and lines of the printed screen.
const PRINTED: (usize, usize) = (100, 32);

/// The terminal while it shows the view. Dropping it, also in a panic, restores the former screen.
#[derive(Debug)]
struct TopScreen(());

/// Runs the command.
pub fn run(arguments: &TopArguments) -> ExitCode {
    match show(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let ConnectArguments { host, port, .. } = &arguments.address;
            eprintln!("nearfield: {host}:{port}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(arguments: &TopArguments) -> io::Result<()> {
    let mut client = arguments.address.connect()?;
    let first = TopSample::take(&mut client)?;
    if arguments.once {
        // A sample has totals since the start of the server, so rates need two.
        std::thread::sleep(EVERY);
        let second = TopSample::take(&mut client)?;
        print!("{}", print(&TopView::new(&first, &second)));
        return Ok(());
    }
    // An error is shown only once the terminal is as it was.
    let screen = TopScreen::enter()?;
    refresh(&screen, &mut client, first)
}

/// Draws until the user presses `q`.
fn refresh(screen: &TopScreen, client: &mut CliClient, mut before: TopSample) -> io::Result<()> {
    let mut view = TopView::new(&before, &before);
    loop {
        screen.draw(&view)?;
        let until = Instant::now() + EVERY;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if !event::poll(left)? {
                continue;
            }
            match event::read()? {
                Event::Key(key) if key.code == KeyCode::Char('q') => return Ok(()),
                // In raw mode Ctrl-C arrives as a key, not as a signal.
                Event::Key(key)
                    if key.code == KeyCode::Char('c')
                        && key.modifiers.contains(KeyModifiers::CONTROL) =>
                {
                    return Ok(());
                }
                Event::Resize(..) => screen.draw(&view)?,
                _ => {}
            }
        }
        let now = TopSample::take(client)?;
        view = TopView::new(&before, &now);
        before = now;
    }
}

impl TopScreen {
    /// Takes over the terminal.
    fn enter() -> io::Result<TopScreen> {
        enable_raw_mode()?;
        // Created before the next step, so that a failure of it ends the raw mode.
        let screen = TopScreen(());
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Fills the terminal with a view.
    fn draw(&self, view: &TopView) -> io::Result<()> {
        let (width, height) = size()?;
        let lines = view.lines(width.into(), height.into());
        let mut output = io::stdout().lock();
        queue!(output, BeginSynchronizedUpdate, MoveTo(0, 0))?;
        // A line feed alone does not return to the first column in raw mode.
        queue!(output, Print(lines.join("\r\n")))?;
        queue!(output, Clear(ClearType::FromCursorDown))?;
        queue!(output, EndSynchronizedUpdate)?;
        output.flush()
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        // A terminal that has gone away needs no restoring.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Returns a screen as text.
fn print(view: &TopView) -> String {
    let lines = view.lines(PRINTED.0, PRINTED.1);
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
# HELP nearfield_commands Commands that were executed.
nearfield_commands_total{command=\"get\"} 1000
nearfield_commands_total{command=\"set\"} 10
nearfield_command_duration_seconds_bucket{le=\"0.000001\",command=\"get\"} 500
nearfield_command_duration_seconds_bucket{le=\"0.000002\",command=\"get\"} 1000
nearfield_command_duration_seconds_bucket{le=\"+Inf\",command=\"get\"} 1000
nearfield_batch_size_bucket{le=\"1.0\"} 10
nearfield_batch_size_bucket{le=\"2.0\"} 10
nearfield_keys{database=\"0\"} 5
";
    const AFTER: &str = "\
nearfield_commands_total{command=\"get\"} 3000
nearfield_commands_total{command=\"set\"} 10
nearfield_command_duration_seconds_bucket{le=\"0.000001\",command=\"get\"} 600
nearfield_command_duration_seconds_bucket{le=\"0.000002\",command=\"get\"} 3000
nearfield_command_duration_seconds_bucket{le=\"+Inf\",command=\"get\"} 3000
nearfield_batch_size_bucket{le=\"1.0\"} 40
nearfield_batch_size_bucket{le=\"2.0\"} 110
nearfield_keys{database=\"0\"} 5
nearfield_memory_used_bytes{kind=\"objects\"} 2097152
nearfield_connected_clients 7
nearfield_keys_evicted_total 4
nearfield_tier_used_bytes{tier=\"memory\"} 1048576
nearfield_tier_capacity_bytes{tier=\"memory\"} 2097152
nearfield_tier_served_total{tier=\"memory\"} 900
nearfield_tier_used_bytes{tier=\"file\"} 4096
nearfield_tier_capacity_bytes{tier=\"file\"} 8192
nearfield_tier_served_total{tier=\"file\"} 100
nearfield_tier_moved_in_total{tier=\"file\"} 20
nearfield_tier_read_duration_seconds_bucket{le=\"0.000064\",tier=\"file\"} 0
nearfield_tier_read_duration_seconds_bucket{le=\"0.000128\",tier=\"file\"} 100
";

    #[test]
    fn a_screen_shows_the_changes() {
        let before = TopSample::parse(BEFORE, Vec::new(), Duration::ZERO);
        let hot = vec![(b"user:\x011".to_vec(), 0, 64)];
        let after = TopSample::parse(AFTER, hot, Duration::from_secs(2));
        let text = print(&TopView::new(&before, &after));
        println!("{text}");
        let line = |word: &str| {
            let line = text.lines().find(|line| line.contains(word));
            let line = line.unwrap_or_else(|| panic!("no {word}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(line("get").contains("get 1,000 2.0 2.0"), "{}", line("get"));
        // Unused commands are not shown.
        assert!(!text.contains("set "));
        assert!(line("7 clients").contains("5 keys"));
        assert!(line("objects").contains("2.0 MiB"));
        assert!(line("user:").contains("user:\\x011"));
        assert!(line("evicted").contains("2 evicted/s"));
        let file = line("4.0 KiB");
        assert!(
            file.contains("file 4.0 KiB 50.0 % 10.0 % 10 0 128"),
            "{file}"
        );
        assert!(line("1.0 MiB").contains("memory 1.0 MiB 50.0 % 90.0 %"));
        // A server without tiers has no panel for tiers.
        assert!(!print(&TopView::new(&before, &before)).contains("Tiers"));
    }
}
