// BullMQ: jobs in bulk, retries, delays, priorities, repeated jobs and flows.
const { Queue, Worker, QueueEvents, FlowProducer } = require("bullmq");

const connection = { port: Number(process.env.PORT), maxRetriesPerRequest: null };
const SECONDS = 20_000;

function check(is, what) {
  if (!is) throw new Error(what);
}

async function main() {
  const queue = new Queue("queue", { connection });
  const events = new QueueEvents("queue", { connection });
  await events.waitUntilReady();
  const work = async (job) => {
    if (job.name === "third" && job.attemptsMade < 2) throw new Error("not yet");
    await job.updateProgress(50);
    return job.data.n * 2;
  };
  const worker = new Worker("queue", work, { connection, concurrency: 5 });
  const finished = (job) => job.waitUntilFinished(events, SECONDS);

  const bulk = [...Array(50).keys()].map((n) => ({ name: "double", data: { n } }));
  const doubled = await Promise.all((await queue.addBulk(bulk)).map(finished));
  check(doubled.every((value, n) => value === 2 * n), "results");
  const backoff = { type: "fixed", delay: 50 };
  const third = await queue.add("third", { n: 4 }, { attempts: 3, backoff });
  check((await finished(third)) === 8, "a retry");
  check((await finished(await queue.add("late", { n: 5 }, { delay: 300 }))) === 10, "a delay");
  check((await finished(await queue.add("first", { n: 6 }, { priority: 3 }))) === 12, "a priority");
  await queue.upsertJobScheduler("each", { every: 200 }, { name: "again", data: { n: 1 } });
  await new Promise((done) => setTimeout(done, 900));
  await queue.removeJobScheduler("each");
  const flows = new FlowProducer({ connection });
  const child = (n) => ({ name: "child", queueName: "queue", data: { n } });
  const children = [child(2), child(3)];
  const flow = await flows.add({ name: "parent", queueName: "queue", data: { n: 1 }, children });
  check((await finished(flow.job)) === 2, "a flow");
  const counts = await queue.getJobCounts();
  check(counts.failed === 0 && counts.completed >= 56, JSON.stringify(counts));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
