//! `DEBUG PROTOCOL`: a reply of each type, to test parsers.

use crate::command::{Answer, CommandCall};
use crate::error::CommandError;
use crate::resp::Protocol;

#[expect(
    clippy::approx_constant,
    reason = "it is the number that Redis replies with"
)]
const DOUBLE: f64 = 3.141;
/// The reply after an attribute, which is not a reply itself.
const BEHIND_ATTRIBUTE: &[u8] = b"Some real reply following the attribute";
const BEHIND_PUSH: &[u8] = b"Some real reply following the push reply";

pub(super) fn protocol(call: &mut CommandCall<'_>) -> Answer {
    let reply = &mut *call.reply;
    let is_resp3 = reply.protocol() == Protocol::Resp3;
    let name = call.args[2].to_ascii_lowercase();
    match name.as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12_345),
        b"double" => reply.double(DOUBLE),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            // RESP2 has no attributes, so the reply is sent without one.
            if is_resp3 {
                reply.raw(b"|1\r\n");
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(BEHIND_ATTRIBUTE);
        }
        b"push" if is_resp3 => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(BEHIND_PUSH);
        }
        b"push" => {
            return Err(CommandError::text(
                "ERR RESP2 is not supported by this command",
            ));
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => {
            let digits = b"1234567999999999999999999999999999999";
            // RESP2 has only integers of 64 bits.
            match is_resp3 {
                true => reply.raw(&[b"(", &digits[..], b"\r\n"].concat()),
                false => reply.bulk(digits),
            }
        }
        _ => {
            return Err(CommandError::text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
