import { setImmediate as turn } from "node:timers/promises";
import { processRoles, type ProcessRole } from "../../api/names.ts";
import { EnginePool } from "../../engine-client/client.ts";
import { readExposition, type ForeignFamily } from "../../lib/metrics/exposition.ts";
import { labelText } from "../../lib/metrics/spec.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { AnswerTooLarge, wholeAnswer } from "../../lib/whole-answer.ts";
import { availabilityOf, type Endpoint } from "../slots/availability.ts";
import { slotsInOrder, type ResolutionIndex } from "../routing/index.ts";

/** Prometheus gives up after ten seconds by default. */
const pageMs = 6000;
const engineMs = 3000;
const engineBytes = 1024 * 1024;
const pageChars = 4 * 1024 * 1024;
/** Engines that are asked at once. */
const atOnce = 16;
/** After this long other work of the gateway goes first. */
const sliceMs = 2;

interface ScrapedEngine {
  readonly slot: string;
  readonly role: ProcessRole;
  readonly endpoint: Endpoint;
}

interface Family extends Pick<ForeignFamily, "type" | "help"> {
  readonly lines: string[];
}

/** The engines' own metrics, read from them when somebody asks and never else. Readers at the same time share one page. */
export class EngineMetrics {
  readonly #index: () => ResolutionIndex;
  #open: Promise<string> | undefined;

  constructor(index: () => ResolutionIndex) {
    this.#index = index;
  }

  /** In Prometheus' text format. An engine that gives none is a comment with the reason. Never rejects. */
  page(): Promise<string> {
    return (this.#open ??= this.#page().finally(() => (this.#open = undefined)));
  }

  async #page(): Promise<string> {
    const deadline = steadyNow() + pageMs;
    const families = new Map<string, Family>();
    const size = { chars: 0 };
    const engines = this.#engines();
    const answers: Promise<Answer>[] = [];
    const comments: string[] = [];
    // In the order of the slots, not of the answers: the same engines give the same page.
    for (const [index, engine] of engines.entries()) {
      while (answers.length < Math.min(index + atOnce, engines.length)) {
        const next = engines[answers.length];
        if (next !== undefined) answers.push(answerOf(next, size, deadline));
      }
      const answer = (await answers[index]) ?? "not asked";
      // Read and done with: not every page is kept until the end.
      answers[index] = Promise.resolve("read");
      const problem = typeof answer === "string" ? answer : await add(engine, answer.text, families, size);
      if (problem !== undefined) comments.push(`# ${nameOf(engine)}: ${problem}\n`);
    }
    let text = comments.join("");
    let began = performance.now();
    for (const [name, { type, help, lines }] of families) {
      text += `${help === undefined ? "" : `# HELP ${name} ${help}\n`}# TYPE ${name} ${type}\n${lines.join("")}`;
      began = await politely(began);
    }
    return text;
  }

  #engines(): ScrapedEngine[] {
    const engines: ScrapedEngine[] = [];
    for (const slot of slotsInOrder(this.#index())) {
      for (const role of processRoles) {
        const now = availabilityOf(slot, role, { operator: "absent", now: Date.now() });
        if (now.kind !== "open") continue;
        for (const endpoint of now.endpoints) engines.push({ slot: slot.name, role, endpoint });
      }
    }
    return engines;
  }
}

const nameOf = ({ slot, role, endpoint }: ScrapedEngine): string => `slot ${slot}, ${role} ${endpoint.ordinal}`;

/** An engine's page, or the reason for its absence. */
type Answer = { readonly text: string } | string;

async function answerOf(engine: ScrapedEngine, size: { readonly chars: number }, deadline: number): Promise<Answer> {
  const left = deadline - steadyNow();
  if (left <= 0) return "not asked, since others took too long";
  if (size.chars >= pageChars) return "not asked, since the page is full";
  return await scrape(engine.endpoint, Math.min(engineMs, left));
}

/** Adds the engine's series to the families. Returns why series are missing; undefined: all were added. */
async function add(
  engine: ScrapedEngine,
  page: string,
  families: Map<string, Family>,
  size: { chars: number },
): Promise<string | undefined> {
  const reading = readExposition(page);
  let began = performance.now();
  let step = reading.next();
  for (; step.done !== true; step = reading.next()) began = await politely(began);
  if (step.value.size === 0) return "no metrics in its answer";
  const own = labelText(["slot", "role", "ordinal"], {
    slot: engine.slot,
    role: engine.role,
    ordinal: String(engine.endpoint.ordinal),
  });
  const others: string[] = [];
  for (const { name, type, help, samples } of step.value.values()) {
    let family = families.get(name);
    if (family === undefined) families.set(name, (family = { type, help, lines: [] }));
    if (family.type !== type) {
      others.push(name);
      continue;
    }
    const lines = samples.map(
      (sample) => `${sample.name}{${own}${sample.labels === "" ? "" : ","}${sample.labels}} ${sample.value}\n`,
    );
    const text = lines.join("");
    if (size.chars + text.length > pageChars) return "left out in part, since the page is full";
    size.chars += text.length;
    family.lines.push(text);
    began = await politely(began);
  }
  return others.length === 0
    ? undefined
    : `of another type than at the engines before: ${others.slice(0, 5).join(", ")}`;
}

async function scrape(endpoint: Endpoint, timeoutMs: number): Promise<Answer> {
  const pool = new EnginePool(endpoint);
  try {
    const request = { method: "GET", path: "/metrics", accept: "text/plain", body: undefined } as const;
    const { status, body } = await wholeAnswer(pool, request, { timeoutMs, limitBytes: engineBytes });
    return status === 200 ? { text: body.toString() } : `it answered ${status}`;
  } catch (error) {
    return error instanceof AnswerTooLarge ? "its answer is above 1 MiB" : "it did not answer in time, or not at all";
  } finally {
    pool.close();
  }
}

/** When the present slice began: another one, once it has taken its time. */
async function politely(began: number): Promise<number> {
  if (performance.now() - began < sliceMs) return began;
  await turn();
  return performance.now();
}
