//! Commands that publish and subscribe.

use crate::client::Topic;
use crate::command::help::help;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, Flags,
};
use crate::connection::IoThreadMessage;
use crate::error::CommandError;

const GROUP: CommandGroup = CommandGroup::PubSub;
const FREE: Flags = Flags(Flags::NO_PHASE.0 | Flags::PUBSUB.0 | Flags::LOADING.0);
const SUBSCRIBES: Flags =
    Flags(FREE.0 | Flags::NOSCRIPT.0 | Flags::SUBSCRIBER.0 | Flags::CONFIRMS.0);

const fn subscribing(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run).flag(SUBSCRIBES)
}

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    subscribing("subscribe", -2, subscribe)
        .about(GROUP, "2.0.0", "O(N) for N channels")
        .summary("Subscribes to messages of channels."),
    subscribing("unsubscribe", -1, unsubscribe)
        .about(GROUP, "2.0.0", "O(N) for N channels")
        .summary("Unsubscribes from messages of channels."),
    subscribing("psubscribe", -2, psubscribe)
        .about(GROUP, "2.0.0", "O(N) for N patterns")
        .summary("Subscribes to messages of channels that match patterns."),
    subscribing("punsubscribe", -1, punsubscribe)
        .about(GROUP, "2.0.0", "O(N) for N patterns")
        .summary("Unsubscribes from channels that match patterns."),
    subscribing("ssubscribe", -2, ssubscribe)
        .about(GROUP, "7.0.0", "O(N) for N channels")
        .summary("Subscribes to messages of shard channels."),
    subscribing("sunsubscribe", -1, sunsubscribe)
        .about(GROUP, "7.0.0", "O(N) for N channels")
        .summary("Unsubscribes from messages of shard channels."),
    CommandDefinition::new("publish", 3, publish)
        .fast()
        .flag(FREE)
        // As in Redis, read-only scripts may not call it, and CLIENT PAUSE WRITE delays it.
        .flag(Flags::MAY_CHANGE)
        .about(GROUP, "2.0.0", "O(N+M) for N subscribers and M patterns")
        .summary("Publishes a message to a channel."),
    CommandDefinition::new("spublish", 3, spublish)
        .fast()
        .flag(FREE)
        .flag(Flags::MAY_CHANGE)
        .about(GROUP, "7.0.0", "O(N) for N subscribers")
        .summary("Publishes a message to a shard channel."),
    CommandDefinition::container("pubsub", SUBCOMMANDS)
        .about(GROUP, "2.8.0", "Depends on the subcommand")
        .summary("Describes channels and their subscribers."),
];

const SUBCOMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("channels", -2, channels)
        .flag(FREE)
        .about(GROUP, "2.8.0", "O(N) for N channels")
        .summary("Returns the channels with subscribers."),
    CommandDefinition::new("numsub", -2, numsub)
        .flag(FREE)
        .about(GROUP, "2.8.0", "O(N) for N channels")
        .summary("Returns the numbers of subscribers of channels."),
    CommandDefinition::new("numpat", 2, numpat)
        .flag(FREE)
        .about(GROUP, "2.8.0", "O(1)")
        .summary("Returns the number of patterns with subscribers."),
    CommandDefinition::new("shardchannels", -2, shard_channels)
        .flag(FREE)
        .about(GROUP, "7.0.0", "O(N) for N channels")
        .summary("Returns the shard channels with subscribers."),
    CommandDefinition::new("shardnumsub", -2, shard_numsub)
        .flag(FREE)
        .about(GROUP, "7.0.0", "O(N) for N channels")
        .summary("Returns the numbers of subscribers of shard channels."),
    CommandDefinition::help(GROUP, "6.2.0", show_help),
];

/// Returns the first words of the messages that confirm the begin and the end of a subscription.
fn verbs(topic: Topic) -> (&'static str, &'static str) {
    match topic {
        Topic::Channel => ("subscribe", "unsubscribe"),
        Topic::Pattern => ("psubscribe", "punsubscribe"),
        Topic::Shard => ("ssubscribe", "sunsubscribe"),
    }
}

/// Begins subscriptions. A client that speaks RESP2 may not do so within a transaction.
fn listen(call: &mut CommandCall<'_>, topic: Topic) -> Answer {
    for &name in call.rest(1) {
        let client = &mut *call.client;
        // As in Redis, a repeated subscription is confirmed like the first.
        if client.subscriptions.insert(topic, name) {
            call.server.pubsub.add(topic, name, &client.shared);
        }
        client.subscriptions.show(&client.shared);
        let count = client.subscriptions.count_for(topic);
        debug_assert!(count > 0, "the subscription itself counts");
        call.reply.push(3);
        call.reply.bulk(verbs(topic).0.as_bytes());
        call.reply.bulk(name);
        call.reply.count(count);
    }
    Ok(())
}

/// Ends the named subscriptions, or all of a kind.
fn end(call: &mut CommandCall<'_>, topic: Topic) -> Answer {
    let named = call.rest(1);
    let names: Vec<Vec<u8>> = if named.is_empty() {
        call.client
            .subscriptions
            .of(topic)
            .iter()
            .cloned()
            .collect()
    } else {
        named.iter().map(|name| name.to_vec()).collect()
    };
    let mut counts = Vec::with_capacity(names.len());
    for name in &names {
        if call.client.subscriptions.remove(topic, name) {
            call.server.pubsub.remove(topic, name, &call.client.shared);
        }
        // Each confirmation has the number that was left after its own removal.
        counts.push(call.client.subscriptions.count_for(topic));
    }
    call.client.subscriptions.show(&call.client.shared);
    // Messages that were published before must arrive before the confirmations.
    deliver_pending(call);
    for (name, count) in names.iter().zip(counts) {
        confirm_end(call, topic, Some(name), count);
    }
    if names.is_empty() {
        let count = call.client.subscriptions.count_for(topic);
        // As in Redis, a client without subscriptions gets one confirmation without a name.
        confirm_end(call, topic, None, count);
    }
    Ok(())
}

fn confirm_end(call: &mut CommandCall<'_>, topic: Topic, name: Option<&[u8]>, count: usize) {
    call.reply.push(3);
    call.reply.bulk(verbs(topic).1.as_bytes());
    call.reply.bulk_or_null(name);
    call.reply.count(count);
}

/// Sends the client the published messages that wait in its thread's mailbox.
pub fn deliver_pending(call: &mut CommandCall<'_>) {
    let client = &call.client.shared;
    let Some(mailbox) = call.server.clients.mailbox_of(client) else {
        return;
    };
    for message in mailbox.take_delivered(client.id) {
        if let IoThreadMessage::Deliver { bytes, .. } = message {
            call.server.clients.share.note_received(client, bytes.len());
            call.reply.raw(&bytes);
        }
    }
}

/// Ends all subscriptions, and drops messages that were published before, for `RESET`.
pub fn unsubscribe_silently(call: &mut CommandCall<'_>) {
    call.server.pubsub.leave(call.client);
    let client = &call.client.shared;
    if let Some(mailbox) = call.server.clients.mailbox_of(client) {
        for message in mailbox.take_delivered(client.id) {
            if let IoThreadMessage::Deliver { bytes, .. } = message {
                // Messages of subscriptions that end here would follow the reply to RESET.
                call.server.clients.share.note_received(client, bytes.len());
            }
        }
    }
}

fn subscribe(call: &mut CommandCall<'_>) -> Answer {
    listen(call, Topic::Channel)
}

fn psubscribe(call: &mut CommandCall<'_>) -> Answer {
    listen(call, Topic::Pattern)
}

fn ssubscribe(call: &mut CommandCall<'_>) -> Answer {
    listen(call, Topic::Shard)
}

fn unsubscribe(call: &mut CommandCall<'_>) -> Answer {
    end(call, Topic::Channel)
}

fn punsubscribe(call: &mut CommandCall<'_>) -> Answer {
    end(call, Topic::Pattern)
}

fn sunsubscribe(call: &mut CommandCall<'_>) -> Answer {
    end(call, Topic::Shard)
}

fn publish(call: &mut CommandCall<'_>) -> Answer {
    send(call, Topic::Channel)
}

fn spublish(call: &mut CommandCall<'_>) -> Answer {
    send(call, Topic::Shard)
}

fn send(call: &mut CommandCall<'_>, topic: Topic) -> Answer {
    let (channel, message) = (call.args[1], call.args[2]);
    let pubsub = &call.server.pubsub;
    // As in Redis, a client that matches twice receives and counts twice.
    let count = pubsub.publish(&call.server.clients, topic, channel, message);
    call.reply.count(count);
    Ok(())
}

fn names(call: &mut CommandCall<'_>, topic: Topic) -> Answer {
    let pattern = match call.rest(2) {
        [] => None,
        [pattern] => Some(*pattern),
        _ => return Err(wrong_arguments(call)),
    };
    let names = call.server.pubsub.names(topic, pattern);
    call.reply.array(names.len());
    for name in names {
        call.reply.bulk(&name);
    }
    Ok(())
}

fn wrong_arguments(call: &CommandCall<'_>) -> CommandError {
    let word = crate::error::shown(call.args.get(1).copied().unwrap_or_default());
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP."
    ))
}

fn counts(call: &mut CommandCall<'_>, topic: Topic) -> Answer {
    let names = call.rest(2);
    // As in Redis, the names and numbers are one flat array in both protocols.
    call.reply.array(2 * names.len());
    for name in names {
        call.reply.bulk(name);
        let count = call.server.pubsub.listeners(topic, name);
        call.reply.count(count);
    }
    Ok(())
}

fn channels(call: &mut CommandCall<'_>) -> Answer {
    names(call, Topic::Channel)
}

fn shard_channels(call: &mut CommandCall<'_>) -> Answer {
    names(call, Topic::Shard)
}

fn numsub(call: &mut CommandCall<'_>) -> Answer {
    counts(call, Topic::Channel)
}

fn shard_numsub(call: &mut CommandCall<'_>) -> Answer {
    counts(call, Topic::Shard)
}

fn numpat(call: &mut CommandCall<'_>) -> Answer {
    let count = call.server.pubsub.count(Topic::Pattern);
    call.reply.count(count);
    Ok(())
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "CHANNELS [<pattern>]",
            "    The channels with subscribers; with a pattern, those that match it.",
            "NUMPAT",
            "    The number of patterns with subscribers.",
            "NUMSUB [<channel> ...]",
            "    The number of subscribers of each of these channels. Subscribers of patterns",
            "    are not counted.",
            "SHARDCHANNELS [<pattern>]",
            "    The same as CHANNELS for the channels of shards.",
            "SHARDNUMSUB [<shardchannel> ...]",
            "    The same as NUMSUB for the channels of shards.",
        ],
    )
}
