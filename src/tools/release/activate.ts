import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { compareVersions } from "../../api/release.ts";
import { isAvailable, type SlotState } from "../../api/states.ts";
import { CommandError } from "../../cli/client.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { readRecord, writeRecord } from "../install/installed-record.ts";
import type { Layout } from "../install/layout.ts";
import type { Services, Unit } from "../install/services.ts";
import { unitsOf, writeUnits } from "../install/units.ts";
import { installedVersions, keptReleases, pruneReleases, swapCurrent } from "./current.ts";
import type { Health } from "./health.ts";
import { removeJournal, writeJournal, type Journal } from "./journal.ts";
import { releaseAt } from "./places.ts";

const usualPollMs = 100;

export interface Activation {
  readonly layout: Layout;
  readonly services: Services;
  readonly health: Health;
  /** Milliseconds until a service or a slot of the new release that is not ready has failed. */
  readonly readyMs: number;
  /** Lines that stay, for the person. */
  readonly write: (text: string) => void;
  /** The step that begins, for progress. Tests end the process here. */
  readonly onStep: (step: string) => void;
  /** Milliseconds between two looks at a service. Absent: 100. */
  readonly pollMs?: number;
}

/**
 * Replaces the release `from`, which runs, by `to`, which lies beside it: swaps `current`, writes the units, restarts the
 * services one after the other, and waits until they and the slots are ready. Puts `from` back where `to` is not ready in
 * time, and throws CommandError then. Can be repeated after a crash at any line: `finish` does.
 */
export async function activate(activation: Activation, from: string, to: string): Promise<void> {
  const { health, services } = activation;
  const states = [...(await health.slots())];
  const slots = states.flatMap(([name, state]) => (isAvailable(state) ? [name] : [])).toSorted();
  const runs = {
    operator: await services.isActive("berth-operator"),
    gateway: await services.isActive("berth-gateway"),
  };
  await finish(activation, { from, to, isGoingBack: false, runs, slots });
}

/** Carries a change to its end that has begun, here or in a process that was killed. Throws as `activate` does. */
export async function finish(activation: Activation, journal: Journal): Promise<void> {
  if (journal.isGoingBack) {
    await goBack(activation, journal);
    return;
  }
  await writeJournal(activation.layout, journal);
  try {
    await switchTo(activation, journal.to);
    await restart(activation, journal, journal.to);
    await waitForSlots(activation, journal);
  } catch (error) {
    await goBack(activation, journal);
    throw new CommandError(
      "update.rolled_back",
      `${journal.to} did not become ready, and ${journal.from} runs again: ${errorMessage(error)}`,
      logs(activation.services),
    );
  }
  activation.onStep("record");
  await record(activation.layout, journal);
  await removeJournal(activation.layout);
  activation.onStep("prune");
  await prune(activation.layout, [journal.from]);
}

/** A service or a slot was not ready in time. */
class NotReady extends Error {
  override readonly name = "NotReady";
}

async function switchTo({ layout, services, write, onStep }: Activation, version: string): Promise<void> {
  onStep("switch");
  await swapCurrent(layout, version);
  onStep("units");
  const known = await readRecord(layout);
  if (services.kind === "none" || known === undefined) return;
  const { kept, hashes } = await writeUnits(await unitsOf(join(layout.prefix, version), layout), known.units);
  for (const path of kept) write(`${path} was edited by a person and stays; ${path}.new is the new text\n`);
  await writeRecord(layout, { ...known, units: hashes });
  // Also where none was written: a process that was killed may have written them, and noted it.
  await services.reload();
}

/**
 * Restarts the services that ran before and are not of that version, so that a gateway listens at any time. Throws
 * NotReady, ServiceFailed.
 */
async function restart(activation: Activation, { runs }: Journal, version: string): Promise<void> {
  const { services, health, write, onStep } = activation;
  if (services.kind === "none") {
    write(`no service manager runs here: restart Berth yourself, so that ${version} runs\n`);
    return;
  }
  if (!runs.operator && !runs.gateway)
    write(`no service of this installation runs; what is started next is ${version}\n`);
  const isOldGateway = runs.gateway && !isReady(await health.gateway("gateway"), version);
  // A standby of the other release that is ready serves until this one's gateway does.
  if (isOldGateway && (await health.gateway("standby"))?.isReady !== true) {
    onStep("standby");
    await services.stop("berth-gateway-standby");
    await services.start("berth-gateway-standby");
    await ready(activation, "berth-gateway-standby", async () => isReady(await health.gateway("standby"), version));
  }
  if (runs.operator && (await health.operator()) !== version) {
    onStep("operator");
    await services.restart("berth-operator");
    await ready(activation, "berth-operator", async () => (await health.operator()) === version);
  }
  if (isOldGateway) {
    onStep("gateway");
    await services.restart("berth-gateway");
    await ready(activation, "berth-gateway", async () => isReady(await health.gateway("gateway"), version));
  }
  onStep("end of the standby");
  await services.stop("berth-gateway-standby");
}

/**
 * Waits until each slot that was ready before is ready again, or rests: a slot may be unloaded, or give its place to
 * another one, at any time. Throws NotReady.
 */
async function waitForSlots({ health, readyMs, pollMs, onStep }: Activation, journal: Journal): Promise<void> {
  const { runs, slots } = journal;
  if (!runs.operator) return;
  onStep("slots");
  const waited = new Set(slots);
  const end = steadyNow() + readyMs;
  for (;;) {
    const states = await health.slots();
    for (const slot of waited) if (isSettled(states.get(slot))) waited.delete(slot);
    if (waited.size === 0) return;
    if (steadyNow() >= end) {
      const late = [...waited].map((slot) => `${slot} is in the state ${states.get(slot) ?? "offline"}`);
      throw new NotReady(`slots that were ready were not so again within ${readyMs / 1000} s: ${late.join(", ")}`);
    }
    await pause(pollMs ?? usualPollMs);
  }
}

/** Undefined: the slot was deleted meanwhile. */
function isSettled(state: SlotState | undefined): boolean {
  return state === undefined || isAvailable(state) || state === "offline" || state === "unloading";
}

function isReady(
  report: { readonly version: string; readonly isReady: boolean } | undefined,
  version: string,
): boolean {
  return report?.isReady === true && report.version === version;
}

async function ready(
  { services, readyMs, pollMs = usualPollMs }: Activation,
  unit: Unit,
  isSo: () => Promise<boolean>,
): Promise<void> {
  const end = steadyNow() + readyMs;
  while (!(await isSo())) {
    if (steadyNow() >= end)
      throw new NotReady(`${unit} was not ready within ${readyMs / 1000} s: ${await services.why(unit)}`);
    await pause(pollMs);
  }
}

/**
 * Puts `from` back. Throws CommandError where `from` cannot read the state that `to` has written, cannot be put back, or
 * does not start.
 */
async function goBack(activation: Activation, journal: Journal): Promise<void> {
  const { layout, health, services, onStep } = activation;
  const { from, to } = journal;
  let isBack = false;
  try {
    const { state_format: readable } = await releaseAt(join(layout.prefix, from));
    const written = await health.stateFormat();
    if (written > readable) {
      await record(layout, journal);
      throw new CommandError(
        "update.not_ready",
        `${to} is not ready, and ${from} cannot read the state that it has written (format ${written}): ${to} stays`,
        logs(services),
      );
    }
    onStep("back");
    await writeJournal(layout, { ...journal, isGoingBack: true });
    await switchTo(activation, from);
    isBack = true;
    await restart(activation, journal, from);
  } catch (error) {
    if (services.kind !== "none") await services.stop("berth-gateway-standby").catch(() => undefined);
    // Once `from` is back, the next update begins anew, with whatever release; until then it finishes this one.
    if (isBack || error instanceof CommandError) await removeJournal(layout);
    if (error instanceof CommandError) throw error;
    const how = isBack ? `neither did ${from}, which is installed again` : `${from} could not be put back`;
    throw new CommandError(
      "update.not_ready",
      `${to} did not become ready, and ${how}: ${errorMessage(error)}`,
      `${logs(services)}; \`berth update\` tries again`,
    );
  }
  await removeJournal(layout);
}

/** The command that shows why services are not ready. */
function logs({ kind }: Services): string {
  return `journalctl${kind === "user" ? " --user" : ""} -u berth-operator -u berth-gateway -u berth-gateway-standby`;
}

/** Notes the release that is installed now, and those to go back to: earlier versions alone, newest first. */
async function record(layout: Layout, { from, to }: Journal): Promise<void> {
  const known = await readRecord(layout);
  if (known === undefined) return;
  const earlier = [from, ...known.previous].filter(
    (version, at, all) => version !== to && all.indexOf(version) === at && compareVersions(version, to) < 0,
  );
  await writeRecord(layout, { ...known, version: to, previous: earlier.slice(0, keptReleases - 1) });
}

/** Removes old releases: `keptReleases` stay, the recorded ones first, and those that processes run from. */
async function prune(layout: Layout, more: readonly string[]): Promise<void> {
  const known = await readRecord(layout);
  if (known === undefined) return;
  const there = (await installedVersions(layout)).toSorted((a, b) => compareVersions(b, a));
  const wanted = [known.version, ...known.previous, ...more, ...there].filter((version) => there.includes(version));
  await pruneReleases(layout, { keep: [...new Set(wanted)].slice(0, keptReleases) });
}
