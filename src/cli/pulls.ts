import { setTimeout as delay } from "node:timers/promises";
import type { PullBody, PullView } from "../api/management/pull-views.ts";
import { CommandError, failure, type Client } from "./client.ts";
import { age, bytes, cell, printable, render, type Column, type Format } from "./output.ts";
import type { Received } from "./received.ts";
import { bar, StatusLine, type Screen } from "./terminal.ts";

type Job = Received<PullView>;

const defaultPollMs = 500;
/** As long as the service itself waits for an operator: a restart takes less. */
const operatorGraceMs = 30_000;
/** A plain line is printed after at least this progress of a download. */
const stepPercent = 10;

/** How a pull is followed. */
interface Following {
  readonly screen: Screen;
  /** How long no operator may run meanwhile; less in tests. */
  readonly graceMs?: number;
  /** Between two looks at the pull; less in tests. */
  readonly pollMs?: number;
}

/**
 * Starts a pull and, unless `isDetached`, shows it until it ends. Returns the line for standard output. Throws
 * CommandError when it was refused or has failed.
 */
export async function pull(
  client: Client,
  body: PullBody,
  { isDetached, ...following }: Following & { readonly isDetached: boolean },
): Promise<string> {
  const job = await client.one("POST /api/models/pull", "id", { body });
  if (isDetached) return `${cell(job.model)}: pull ${cell(job.id)} is ${cell(job.state)}\n`;
  return await seenThrough(client, job, "pulled", following);
}

/** Has the service compare a model's files with their checksums, as `pull` shows a pull. */
export async function verify(client: Client, ref: string, screen: Screen): Promise<string> {
  const job = await client.one("POST /api/models/verify", "id", { body: { model: ref } });
  return await seenThrough(client, job, "verified", { screen });
}

async function seenThrough(
  client: Client,
  begun: Job,
  done: string,
  { screen, graceMs = operatorGraceMs, pollMs = defaultPollMs }: Following,
): Promise<string> {
  let job = begun;
  const id = begun.id ?? "";
  using line = new StatusLine(screen);
  let told: string | undefined;
  let livedAtMs = performance.now();
  while (["queued", "running", "paused"].includes(cell(job.state))) {
    const { fact, detail, trouble } = presentJob(job);
    // Once for each cause: it is tried again for an hour.
    if (trouble !== undefined && trouble !== told && typeof job.retry_at === "string") {
      line.say(`${cell(job.model)}: ${trouble}${nextTry(job)}, then less and less often for an hour at most`);
      told = trouble;
    }
    if (trouble === undefined) told = undefined;
    if (screen.isTTY === true) line.show(fact, detail);
    else if (told === undefined) line.show(`${fact}${stepOf(job)}`);
    await delay(pollMs);
    const before = JSON.stringify(job);
    job = await client.one("GET /api/pulls/{id}", "id", { params: { id } });
    if (JSON.stringify(job) !== before || !(await isOperatorLost(client))) livedAtMs = performance.now();
    else if (performance.now() - livedAtMs >= graceMs)
      throw new CommandError(
        "model.pull_failed",
        `no operator runs, which alone fetches and checks models: ${cell(job.model)} is ${cell(job.state)}`,
        "start one (`berth operator`, or `berth up`), or see `berth status`: it goes on with what was asked",
      );
  }
  if (job.state === "completed") return `${cell(job.model)}: ${done}, ${bytes(job.bytes_done)}\n`;
  const { code, message } = job.error ?? {};
  throw await failure(code ?? "model.pull_failed", message ?? `the pull was ${cell(job.state)}`);
}

/** Where the service cannot tell, an operator is supposed to run. */
async function isOperatorLost(client: Client): Promise<boolean> {
  const health = await client.call("GET /api/health/system").catch(() => undefined);
  return health?.checks?.operator_heartbeat?.status === "degraded";
}

function shareOf({ bytes_done: done, bytes_total: total }: Job): number | undefined {
  return typeof done === "number" && typeof total === "number" && total > 0 ? done / total : undefined;
}

function stepOf(job: Job): string {
  const share = shareOf(job);
  return share === undefined ? "" : ` ${Math.floor((share * 100) / stepPercent) * stepPercent}%`;
}

/** A pull for a person: its state, the changing numbers, and why no byte comes while it is tried again. */
export function presentJob(job: Job): { fact: string; detail: string; trouble?: string } {
  const { error } = job;
  const fact = `${cell(job.model)}: ${cell(job.state)}`;
  const isTried = job.state === "queued" || job.state === "running";
  if (error !== null && error !== undefined && isTried)
    return { fact, detail: nextTry(job), trouble: cell(error.message) };
  const share = shareOf(job);
  const speed = job.bytes_per_second;
  const rate = typeof speed === "number" ? `, ${bytes(speed)}/s` : "";
  const left = typeof job.eta_seconds === "number" ? `, ${age(Math.round(job.eta_seconds))} left` : "";
  if (share === undefined) return { fact, detail: ` ${bytes(job.bytes_done)}${rate}` };
  return { fact, detail: ` ${bar(share)} ${Math.floor(share * 100)}% of ${bytes(job.bytes_total)}${rate}${left}` };
}

/** By the clock of this machine: a plain line that counts down would be another line each second. */
function nextTry({ retry_at: at }: Job): string {
  return typeof at === "string" ? `; next try at ${new Date(at).toTimeString().slice(0, 8)}` : "";
}

function sourceText(sources: Job["sources"]): string {
  return sources?.map(cell).join(",") ?? "-";
}

const columns: readonly Column<Job>[] = [
  { title: "ID", value: (row) => cell(row.id) },
  { title: "MODEL", value: (row) => cell(row.model) },
  { title: "STATE", value: (row) => cell(row.state) },
  { title: "DONE", value: (row) => `${bytes(row.bytes_done)} of ${bytes(row.bytes_total)}` },
  {
    title: "RATE",
    value: ({ bytes_per_second: rate }) => (typeof rate === "number" ? `${bytes(rate)}/s` : "-"),
  },
  { title: "LEFT", value: ({ eta_seconds: eta }) => age(eta) },
  { title: "FOR", value: (row) => (row.for_slot === true ? "a slot" : "a person") },
  {
    title: "SOURCE",
    isWide: true,
    value: ({ sources }) => sourceText(sources),
  },
  { title: "ERROR", isWide: true, value: ({ error }) => cell(error?.message) },
];

/** `berth pull list`. Throws CommandError. */
export async function pullTable(client: Client, format: Format): Promise<string> {
  const pulls = await client.list("GET /api/pulls");
  const text = await render(pulls, columns, format, "id");
  if (format !== "table") return text;
  const troubles = pulls.flatMap((job) => {
    const { trouble } = presentJob(job);
    return trouble === undefined ? [] : [`${cell(job.model)}: ${printable(trouble)}${nextTry(job)}\n`];
  });
  return troubles.length === 0 ? text : `${text}\n${troubles.join("")}`;
}

const changes = {
  pause: { route: "POST /api/pulls/{id}/pause", done: "paused" },
  resume: { route: "POST /api/pulls/{id}/resume", done: "resumed" },
  cancel: { route: "DELETE /api/pulls/{id}", done: "cancelled" },
} as const;

/** Pauses, resumes or cancels the pull of that id, or the one of that model that is not over. Throws CommandError. */
export async function changePull(client: Client, what: string, action: keyof typeof changes): Promise<string> {
  const all = await client.list("GET /api/pulls");
  const isOver = ({ ended_at: endedAt }: Job): boolean => typeof endedAt === "string";
  const named = all.filter(({ model }) => model === what);
  const running = named.filter((pull) => !isOver(pull));
  const job = all.find(({ id }) => id === what) ?? running[0];
  if (job === running[0] && running.length > 1) {
    const each = running.map(({ id, sources }) => `${cell(id)} (${sourceText(sources)})`);
    const message = `${what} is fetched from several sources: ${each.join(", ")}`;
    throw new CommandError("dispatch.invalid_request", message, `give the id: \`berth pull ${action} ID\``);
  }
  const ended = job ?? named[0];
  if (ended !== undefined && isOver(ended)) {
    const message = `the pull of ${cell(ended.model)} is over: it was ${cell(ended.state)} at ${cell(ended.ended_at)}`;
    throw new CommandError(
      "dispatch.invalid_request",
      message,
      `\`berth model pull ${cell(ended.model)}\` fetches it again`,
    );
  }
  if (job === undefined)
    throw new CommandError(
      "system.not_found",
      `no pull has the id or fetches the model ${what}`,
      "see `berth pull list`",
    );
  const { route, done } = changes[action];
  await client.call(route, { params: { id: job.id ?? "" } });
  return `${cell(job.model)}: pull ${done}\n`;
}
