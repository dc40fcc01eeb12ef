//! The forms that no Redis 7 writes, made by hand; files and payloads, round and damaged.

mod damage;
mod forms;
mod made;
mod round;
mod seeds;
