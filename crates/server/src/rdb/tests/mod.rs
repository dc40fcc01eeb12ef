//! Tests: forms that no Redis 7 writes, made by hand; round trips and damage of files and payloads.

mod damage;
mod forms;
mod made;
mod round;
mod seeds;
