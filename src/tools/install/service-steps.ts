import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { CommandError } from "../../cli/client.ts";
import { localUrl } from "../../lib/listen-address.ts";
import { readText } from "../../lib/read-text.ts";
import { missingAbove, statusOf } from "./paths.ts";
import type { Services, Unit as UnitName } from "./services.ts";
import type { InstallTarget, Step } from "./install-target.ts";
import { compareUnits, unitsOf, wantsLink, writeUnits } from "./units.ts";

/** The units that an installation enables and starts, in this order. */
export const startedUnits = ["berth-operator", "berth-gateway"] as const satisfies readonly UnitName[];
const pollMs = 200;
const answerMs = 5000;

/** The units, and the services that run by them. `isChanged`: the environment file gets new lines. */
export async function serviceSteps(
  site: InstallTarget,
  options: { readonly isChanged: boolean; readonly readyMs: number; readonly note: (text: string) => void },
): Promise<readonly Step[]> {
  const { layout, root, services, recordFile } = site;
  if (services.kind === "none") return [];
  const units = await unitsOf(root, layout);
  const change = await compareUnits(units, recordFile.record.units);
  for (const path of change.kept)
    options.note(
      `${path} was edited by a person and stays; ${path}.new is the new text (\`systemctl edit\` keeps edits apart)\n`,
    );
  const haveNew = await Promise.all(
    units.map(
      async ({ path, text }) => (await readText(`${path}.new`)) === (change.kept.includes(path) ? text : undefined),
    ),
  );
  const isRecorded = Object.entries(change.hashes).every(([path, hash]) => recordFile.record.units[path] === hash);
  const isWritten = change.written.length === 0 && isRecorded && !haveNew.includes(false);
  const areEnabled = await Promise.all(startedUnits.map(async (unit) => await isEnabled(site, unit)));
  const areActive = await Promise.all(startedUnits.map(async (unit) => await services.isActive(unit)));
  const isNeeded = change.written.length > 0 || options.isChanged || recordFile.record.restart === true;
  const isRestart = areActive.includes(true) && isNeeded;
  const isReadyNow = !areActive.includes(false) && (await notReady(site)) === undefined;
  return [
    {
      what: change.written.length === 0 ? "note which units are Berth's" : `write ${change.written.join(", ")}`,
      isDone: isWritten,
      act: async () => {
        await recordFile.making(...(await missingAbove(join(layout.unitsDir, "any"))));
        if (change.written.length > 0) await recordFile.note({ restart: true });
        const { hashes } = await writeUnits(units, recordFile.record.units);
        await services.reload();
        await recordFile.note({ units: hashes });
      },
    },
    {
      what: `${isRestart ? "restart" : "start"} ${startedUnits.join(" and ")}${areEnabled.includes(false) ? ", and enable them" : ""}`,
      isDone: !areActive.includes(false) && !areEnabled.includes(false) && !isRestart,
      act: async () => {
        for (const unit of startedUnits) {
          await services.enable(unit);
          if (isRestart) await services.restart(unit);
          else await services.start(unit);
        }
        await recordFile.note({ restart: undefined });
      },
    },
    {
      what: "wait until they are ready",
      isDone: isReadyNow && !isRestart,
      act: async () => await waitUntilReady(site, options.readyMs),
    },
    {
      what: "skip the pages' setup, since this has done it",
      isDone: (await statusOf(join(layout.stateDir, "installed"))) !== undefined,
      act: async () => await completeFirstRun(site),
    },
  ];
}

async function isEnabled({ layout }: InstallTarget, unit: UnitName): Promise<boolean> {
  return (await statusOf(wantsLink(layout, `${unit}.service`))) !== undefined;
}

/** The unit that does not answer as ready; undefined where both do. */
async function notReady({ config }: InstallTarget): Promise<(typeof startedUnits)[number] | undefined> {
  const isReady = async (url: string): Promise<boolean> =>
    await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(answerMs) }).then(
      async (answer) => {
        await answer.body?.cancel();
        return answer.ok;
      },
      () => false,
    );
  if (!(await isReady(localUrl(config.operatorHost, config.operatorPort)))) return "berth-operator";
  return (await isReady(localUrl(config.host, config.port))) ? undefined : "berth-gateway";
}

async function waitUntilReady(site: InstallTarget, readyMs: number): Promise<void> {
  const end = performance.now() + readyMs;
  for (;;) {
    const unit = await notReady(site);
    if (unit === undefined) return;
    if (performance.now() > end) throw await failure(site.services, unit, readyMs);
    await delay(pollMs);
  }
}

async function failure(services: Services, unit: UnitName, readyMs: number): Promise<CommandError> {
  const whose = services.kind === "user" ? " --user" : "";
  return new CommandError(
    "install.not_ready",
    `${unit} is not ready after ${Math.round(readyMs / 1000)} s: ${await services.why(unit)}`,
    `journalctl${whose} -u ${unit} -n 50`,
  );
}

async function completeFirstRun({ config }: InstallTarget): Promise<void> {
  const url = `${localUrl(config.host, config.port)}/api/install/complete`;
  const answer = await fetch(url, { method: "POST", signal: AbortSignal.timeout(answerMs) });
  await answer.body?.cancel();
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
}
