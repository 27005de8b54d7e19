import { compareVersions } from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import type { Input, Output } from "../../cli/terminal.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { isLoopback, localUrl } from "../../lib/listen-address.ts";
import { SettingsError } from "../../program/settings.ts";
import { currentVersion } from "../release/current.ts";
import { checkEdge, edgeStep, tokenStep } from "./access-steps.ts";
import { checkMachine, checkRelease } from "./checks.ts";
import { installSettings, type InstallSettings } from "./install-settings.ts";
import { givenModel, modelSteps, slotsOf } from "./first-slot.ts";
import { lockInstallation } from "./installation-lock.ts";
import { readRecord } from "./installed-record.ts";
import type { Health } from "../release/health.ts";
import type { Layout } from "./layout.ts";
import { commandStep, currentStep, directorySteps, environmentStep, programStep, userStep } from "./place-steps.ts";
import { missingAbove } from "./paths.ts";
import { serviceSteps } from "./service-steps.ts";
import type { Services } from "./services.ts";
import { RecordFile, serviceUser, type Host, type InstallTarget, type Step } from "./install-target.ts";

export interface InstallOptions {
  readonly env: NodeJS.ProcessEnv;
  /** The directory of this program. */
  readonly root: string;
  readonly version: string;
  readonly layout: Layout;
  readonly services: Services;
  readonly host: Host;
  /** The configuration file of Caddy. */
  readonly caddyfile: string;
  /** Nothing is asked. */
  readonly isConfirmed: boolean;
  /** A GGUF file that becomes the slot `primary`. */
  readonly model?: string | undefined;
  /** False: no edge proxy, also with authentication; absent: as the last run. */
  readonly hasEdge?: boolean | undefined;
  readonly input: () => Input;
  readonly screen: Output;
  readonly write: (text: string) => void;
  /** How the running services are; absent: as they report it themselves. */
  readonly health?: Health;
  /** Milliseconds until services that are not ready have failed. */
  readonly readyMs: number;
}

/**
 * `berth install`: prints the steps that are left, asks, and does them. Without a terminal and without `isConfirmed` it
 * only prints them. Throws CommandError; a step that has failed can be done again by another run.
 */
export async function install(options: InstallOptions): Promise<void> {
  const { layout, write, screen, version } = options;
  checkRelease(options.root);
  const isAsked = !options.isConfirmed && screen.isTTY === true && options.input().isTTY === true;
  const isEdgeWanted = options.hasEdge ?? (await readRecord(layout))?.no_edge !== true;
  const settings = await installSettings({ ...options, hasEdge: isEdgeWanted }, isAsked);
  const plan = await planOf(options, settings, isEdgeWanted);
  if (plan.left.length === 0) {
    for (const line of plan.said) write(line);
    write(`Berth ${version} is installed in ${layout.prefix}, and all is as it should be\n`);
    return;
  }
  write(`Berth ${version} will:\n${plan.left.map(({ what }) => `  ${what}\n`).join("")}`);
  if (!(await isAgreed(options, isAsked))) return;
  using _interrupt = onInterrupt(screen);
  await plan.site.recordFile.making(...(await missingAbove(layout.prefix)), layout.prefix);
  await using lock = new AsyncDisposableStack();
  lock.use(await lockInstallation(layout));
  // Another run may have ended since the plan was made.
  const now = await planOf(options, settings, isEdgeWanted, async () => await lock.disposeAsync());
  const say = (): void => {
    for (const line of now.said.splice(0)) write(line);
  };
  say();
  for (const step of now.left) {
    await done(step, screen);
    // At once: a later step may fail, and the token is shown this once.
    say();
  }
  write(await now.ending());
}

interface Plan {
  readonly site: InstallTarget;
  readonly left: readonly Step[];
  /** Lines for the person, also those that the steps add. */
  readonly said: string[];
  readonly ending: () => Promise<string>;
}

/** The steps that are left. `unlock` is called before an update, which takes the lock itself. Throws CommandError. */
async function planOf(
  options: InstallOptions,
  { config, env, change }: InstallSettings,
  isEdgeWanted: boolean,
  unlock?: () => Promise<void>,
): Promise<Plan> {
  const { layout, version, services } = options;
  const before = await currentVersion(layout);
  if (before !== undefined && compareVersions(before, version) > 0)
    throw new CommandError(
      "install.newer_installed",
      `${before} is installed, which is newer than ${version}`,
      "`berth update --rollback` goes back to the release before; `berth uninstall` removes both",
    );
  const recordFile = new RecordFile(layout, await readRecord(layout), version);
  const site: InstallTarget = { ...options, env, config, recordFile };
  const hasEdge = config.authEnabled && layout.isSystem && isEdgeWanted;
  const model = options.model === undefined ? undefined : await givenModel(options.model);
  if (hasEdge) await checkEdge(site);
  await checkMachine(site, { hasEdge });
  const said: string[] = [];
  const note = (text: string): void => void said.push(text);
  for (const name of change.kept)
    note(`${name} stays as ${layout.environmentFile} has it; edit the file to change it\n`);
  if (hasEdge && !isLoopback(config.host))
    note(
      `SVC_HOST=${config.host} has the API speak plain HTTP on the network beside the proxy: set 127.0.0.1 in ${layout.environmentFile}\n`,
    );
  let hasToken = false;
  const show = (token: string): void => {
    hasToken = true;
    note(`  token      ${token}  (shown this once)\n`);
  };
  const isUpdate = before !== undefined && before !== version;
  const steps: readonly Step[] = [
    userStep(site),
    ...(await directorySteps(site)),
    await programStep(site),
    ...(isUpdate ? [] : [await currentStep(site), await commandStep(site)]),
    await environmentStep(site, change),
    ...(model === undefined ? [] : await modelSteps(site, model, note)),
    ...(config.authEnabled ? [await tokenStep(site, show)] : []),
    ...(isUpdate
      ? [updateStep(site, before, options, unlock)]
      : await serviceSteps(site, { isChanged: change.added.length > 0, readyMs: options.readyMs, note })),
    ...(config.authEnabled && layout.isSystem ? [edgeChoiceStep(site, isEdgeWanted)] : []),
    ...(hasEdge ? [await edgeStep(site, options.caddyfile, note)] : []),
  ];
  return {
    site,
    left: steps.filter(({ isDone }) => !isDone),
    said,
    ending: async () => {
      const text = ending({ site, hasEdge, hasToken, slot: await someSlot(config.configDir) });
      return services.kind === "none" ? text + byHand(layout) : text;
    },
  };
}

/** The next run keeps to the choice. */
function edgeChoiceStep({ recordFile }: InstallTarget, isEdgeWanted: boolean): Step {
  return {
    what: isEdgeWanted ? "make the edge proxy after all" : "leave out the edge proxy, also in later runs",
    isDone: (recordFile.record.no_edge === true) === !isEdgeWanted,
    act: async () => await recordFile.note({ no_edge: !isEdgeWanted }),
  };
}

/** Ctrl-C between the steps or in one: says what to do, and ends the process. */
function onInterrupt(screen: Output): Disposable {
  const end = (): void => {
    screen.write("\ninterrupted; run the same command again: it goes on from there\n");
    process.exit(130);
  };
  process.once("SIGINT", end);
  return { [Symbol.dispose]: () => void process.off("SIGINT", end) };
}

async function isAgreed({ isConfirmed, input, screen, write }: InstallOptions, isAsked: boolean): Promise<boolean> {
  if (isConfirmed) return true;
  if (isAsked) {
    const { confirm } = await import("../../cli/terminal.ts");
    if (await confirm("Do this?", input(), screen)) return true;
  }
  write("nothing has been done; --yes does it\n");
  return false;
}

/** An older release runs: its services are restarted as by `berth update`, which loses no request. */
function updateStep(
  { layout, services, config, version, recordFile }: InstallTarget,
  before: string,
  options: InstallOptions,
  unlock: (() => Promise<void>) | undefined,
): Step {
  return {
    what: `update from ${before} to ${version}`,
    isDone: false,
    act: async () => {
      await unlock?.();
      const { changeTo } = await import("../release/update.ts");
      const health = options.health ?? (await import("../release/health.ts")).healthOf(config);
      const { readyMs, write } = options;
      await changeTo({ layout, services, health, readyMs, write, onStep: () => undefined }, version);
      await recordFile.note({ restart: undefined });
    },
  };
}

async function done({ what, act }: Step, screen: Output): Promise<void> {
  const { StatusLine } = await import("../../cli/terminal.ts");
  using line = new StatusLine(screen);
  if (screen.isTTY === true) line.show(what);
  try {
    await act();
  } catch (error) {
    if (error instanceof CommandError || error instanceof SettingsError) throw error;
    const next = "mend that, then run the same command again: it goes on from there";
    throw new CommandError("install.failed", `could not ${what}: ${reason(error)}`, next);
  }
}

function reason(error: unknown): string {
  const path = error instanceof Error && "path" in error && typeof error.path === "string" ? ` (${error.path})` : "";
  const code = errorCode(error);
  if (code === "ENOSPC" || code === "EDQUOT") return `no space is left${path}`;
  if (code === "EACCES" || code === "EPERM") return `no right to write${path}`;
  if (code === "EROFS") return `a read-only file system${path}`;
  return errorMessage(error);
}

/** A slot that a person may chat with. */
async function someSlot(configDir: string): Promise<string | undefined> {
  const names = (await slotsOf(configDir)).map(({ name }) => name);
  return names.includes("primary") ? "primary" : names[0];
}

interface Ending {
  readonly site: InstallTarget;
  readonly hasEdge: boolean;
  readonly hasToken: boolean;
  readonly slot: string | undefined;
}

/** The addresses, and the next command. */
function ending({ site: { config, layout, services, version }, hasEdge, hasToken, slot }: Ending): string {
  const own = localUrl(config.host, config.port);
  const url = hasEdge ? `https://${config.hostname}` : own;
  const lines = [
    `Berth ${version} is installed${services.kind === "none" ? "" : " and runs"}.`,
    `  dashboard  ${url}/`,
    `  chat       ${url}/chat/`,
    `  API        ${url}/v1`,
  ];
  const server = config.port === 8080 && config.host !== "::" ? "" : `SVC_URL=${own} `;
  const key = hasToken ? "SVC_TOKEN=… " : "";
  if (services.kind !== "none")
    lines.push(
      slot === undefined
        ? `Next: put a model's GGUF file below ${config.modelsDir} and a slot into ${layout.configDir}/slots; ${server}berth model catalog lists models`
        : `Next: ${server}${key}berth chat ${slot} "hello"`,
    );
  if (services.kind === "user") lines.push("The services end when you log out, unless: loginctl enable-linger");
  return `${lines.join("\n")}\n`;
}

function byHand({ isSystem }: Layout): string {
  const command = isSystem ? `runuser -u ${serviceUser} -- berth up` : "berth up";
  return `No service manager runs here, so nothing was started. To run Berth: ${command}\n`;
}
