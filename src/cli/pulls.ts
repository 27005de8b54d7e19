import { setTimeout as delay } from "node:timers/promises";
import { failure, notBerth, type Client } from "./client.ts";
import { age, bytes, cell, isRecord } from "./output.ts";
import { bar, StatusLine, type Screen } from "./terminal.ts";

type Job = Readonly<Record<string, unknown>>;

const pollMs = 500;
/** A plain line says at most so much of a download. */
const stepPercent = 10;

/** What is asked for: a ref of the catalogue or the registry, or a source such as `hf://owner/repo/file.gguf`. */
export function pullBody(what: string, acceptsLicense: boolean): Record<string, unknown> {
  const wanted = /^[a-z]+:\/\//.test(what) ? { source: what } : { model: what };
  return acceptsLicense ? { ...wanted, accept_license: true } : wanted;
}

/**
 * Starts a pull and, unless `isDetached`, shows it until it ends. Returns the line for standard output. Throws
 * CommandError when it was refused or has failed.
 */
export async function pull(
  client: Client,
  body: Readonly<Record<string, unknown>>,
  { isDetached, screen }: { isDetached: boolean; screen: Screen },
): Promise<string> {
  let job = jobOf(await client.send("POST", "/api/models/pull", body));
  const id = cell(job["id"]);
  if (isDetached) return `${cell(job["model"])}: pull ${id} is ${cell(job["state"])}\n`;
  using line = new StatusLine(screen);
  while (["queued", "running", "paused"].includes(cell(job["state"]))) {
    const { fact, detail } = presentJob(job);
    line.show(screen.isTTY === true ? fact : `${fact}${stepOf(job)}`, detail);
    await delay(pollMs);
    job = jobOf(await client.get(`/api/pulls/${encodeURIComponent(id)}`));
  }
  if (job["state"] === "completed") return `${cell(job["model"])}: pulled, ${bytes(job["bytes_done"])}\n`;
  const { error } = job;
  const message = isRecord(error) ? cell(error["message"]) : `the pull was ${cell(job["state"])}`;
  throw await failure(isRecord(error) ? cell(error["code"]) : "model.pull_failed", message);
}

function jobOf(answer: unknown): Job {
  if (isRecord(answer) && "id" in answer) return answer;
  throw notBerth("the service answered something else than a pull");
}

function shareOf({ bytes_done: done, bytes_total: total }: Job): number | undefined {
  return typeof done === "number" && typeof total === "number" && total > 0 ? done / total : undefined;
}

function stepOf(job: Job): string {
  const share = shareOf(job);
  return share === undefined ? "" : ` ${Math.floor((share * 100) / stepPercent) * stepPercent}%`;
}

/** A pull for a person: what is so, and the numbers that move. */
export function presentJob(job: Job): { fact: string; detail: string } {
  const fact = `${cell(job["model"])}: ${cell(job["state"])}`;
  const share = shareOf(job);
  const speed = job["bytes_per_second"];
  const rate = typeof speed === "number" ? `, ${bytes(speed)}/s` : "";
  const left = typeof job["eta_seconds"] === "number" ? `, ${age(Math.round(job["eta_seconds"]))} left` : "";
  if (share === undefined) return { fact, detail: ` ${bytes(job["bytes_done"])}${rate}` };
  return { fact, detail: ` ${bar(share)} ${Math.floor(share * 100)}% of ${bytes(job["bytes_total"])}${rate}${left}` };
}
