/**
 * Doubles for tests of updates: small releases whose program only says its version, and a machine whose service manager
 * notes which version each unit runs. A unit starts where `current/bin/berth` starts. Where its release has a file
 * `never-ready` for it, it ends at once and is started again and again, and is not active in between.
 */
import { execFile } from "node:child_process";
import { mkdir, readFile, readlink, rename, rm, symlink, writeFile, appendFile } from "node:fs/promises";
import { cp } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { parseSecretKey, signatureText } from "../../../hack/release/signature.ts";
import type { ReleaseIndex } from "../../../src/api/release.ts";
import { fileDigest } from "../../../src/lib/file-digest.ts";
import { writeRecord } from "../../../src/tools/install/installed-record.ts";
import type { Layout } from "../../../src/tools/install/layout.ts";
import type { Services, Unit } from "../../../src/tools/install/services.ts";
import { unitsOf, writeUnits } from "../../../src/tools/install/units.ts";
import type { Health } from "../../../src/tools/release/health.ts";
import { ownTarget } from "../../../src/tools/release/release-index.ts";
import type { UpdateOptions } from "../../../src/tools/release/update.ts";

const run = promisify(execFile);
const repository = fileURLToPath(new URL("../../..", import.meta.url));
const keys = join(repository, "test/fixtures/minisign");

export interface Made {
  readonly version: string;
  readonly stateFormat?: number;
  /** A shell script in the place of the program. */
  readonly program?: string;
  /** The unit that ends whenever it is started; "all" for each. */
  readonly neverReady?: Unit | "all";
}

/** The tree of a release. */
export async function makeTree(root: string, { version, stateFormat = 1, program, neverReady }: Made): Promise<void> {
  await mkdir(join(root, "bin"), { recursive: true });
  await writeFile(join(root, "bin/berth"), program ?? `#!/bin/sh\necho ${version}\n`, { mode: 0o755 });
  const release = { version, target: ownTarget(), state_format: stateFormat, unpacked_bytes: 4096 };
  await writeFile(join(root, "release.json"), JSON.stringify(release));
  await writeFile(join(root, "package.json"), JSON.stringify({ name: "berth", version }));
  await cp(join(keys, "key.pub"), join(root, "minisign.pub"));
  await cp(join(repository, "manifests/systemd"), join(root, "manifests/systemd"), { recursive: true });
  if (neverReady !== undefined) await writeFile(join(root, "never-ready"), neverReady);
}

/** Signs a file with the key of the tests, or with the other one. */
export async function sign(path: string, key = "key.sec"): Promise<void> {
  const secret = parseSecretKey(await readFile(join(keys, key), "utf8"), key);
  await writeFile(
    `${path}.minisig`,
    signatureText(secret, await fileDigest(path, "blake2b512"), `file:${basename(path)}`),
  );
}

/** A signed archive of the release; its path. */
export async function makeArchive(dir: string, made: Made): Promise<string> {
  const name = `berth-${made.version}`;
  await makeTree(join(dir, name), made);
  const archive = join(dir, `${name}-${ownTarget()}.tar.gz`);
  await run("tar", ["-czf", archive, "-C", dir, name]);
  await rm(join(dir, name), { recursive: true });
  await sign(archive);
  return archive;
}

/** A publisher's directory with these releases, newest first, and a signed index; the index's path. */
export async function publish(dir: string, ...releases: readonly Made[]): Promise<string> {
  await mkdir(dir, { recursive: true });
  const stable = [];
  for (const made of releases) {
    const archive = await makeArchive(dir, made);
    const sha256 = (await fileDigest(archive, "sha256")).toString("hex");
    const bytes = (await readFile(archive)).length;
    stable.push({
      version: made.version,
      released: "2026-11-29",
      state_format: made.stateFormat ?? 1,
      files: { [ownTarget()]: { url: archive.slice(dir.length + 1), sha256, bytes, unpacked_bytes: 4096 } },
    });
  }
  const index: ReleaseIndex = { format: 1, channels: { stable } };
  return await writeIndex(dir, index);
}

export async function writeIndex(dir: string, index: unknown): Promise<string> {
  const path = join(dir, "index.json");
  await writeFile(path, typeof index === "string" ? index : JSON.stringify(index));
  await sign(path);
  return path;
}

export function layoutIn(dir: string): Layout {
  const prefix = join(dir, "lib/berth");
  return {
    isSystem: false,
    prefix,
    current: join(prefix, "current"),
    command: join(dir, "bin/berth"),
    configDir: join(dir, "config"),
    stateDir: join(dir, "state"),
    environmentFile: join(dir, "config.env"),
    unitsDir: join(dir, "units"),
    record: join(prefix, "installed.json"),
  };
}

/** An installation of this release in the directory, whose services run. */
export async function install(dir: string, made: Made): Promise<void> {
  const layout = layoutIn(dir);
  await makeTree(join(layout.prefix, made.version), made);
  await symlink(made.version, layout.current);
  const units = await unitsOf(join(layout.prefix, made.version), layout);
  const { hashes } = await writeUnits(units, {});
  await writeRecord(layout, { version: made.version, previous: [], units: hashes, made: { paths: [] } });
  const { services } = machine(dir);
  for (const unit of ["berth-operator", "berth-gateway"] as const) await services.start(unit);
  await rm(join(dir, "calls"));
}

/** The services and the health of the machine in the directory. What they note is there, for other processes too. */
export function machine(dir: string): { services: Services; health: Health; calls: () => Promise<readonly string[]> } {
  const layout = layoutIn(dir);
  const file = (unit: Unit): string => join(dir, `runs-${unit}`);
  const running = async (unit: Unit): Promise<string | undefined> =>
    (await readFile(file(unit), "utf8").catch(() => "")) || undefined;
  const note = async (call: string): Promise<void> => await appendFile(join(dir, "calls"), `${call}\n`);
  const readyVersion = async (unit: Unit): Promise<string | undefined> => {
    const version = await running(unit);
    if (version === undefined) return undefined;
    const broken = await readFile(join(layout.prefix, version, "never-ready"), "utf8").catch(() => "");
    return broken === "all" || broken === unit ? undefined : version;
  };
  // At once: a process of the test may be killed at any time, and a service manager completes what it was asked for.
  const startNow = async (unit: Unit): Promise<void> => {
    const { stdout } = await run(join(layout.current, "bin/berth"), ["--version"]);
    await writeFile(`${file(unit)}.new`, stdout.trim());
    await rename(`${file(unit)}.new`, file(unit));
  };
  const notListening = async (unit: Unit): Promise<void> => {
    if (unit === "berth-gateway" && (await readyVersion("berth-gateway-standby")) === undefined)
      await note("NOBODY LISTENS");
  };
  return {
    calls: async () => (await readFile(join(dir, "calls"), "utf8").catch(() => "")).trimEnd().split("\n"),
    services: {
      kind: "user",
      async start(unit) {
        await note(`start ${unit}`);
        if ((await running(unit)) === undefined) await startNow(unit);
      },
      async stop(unit) {
        if ((await running(unit)) === undefined) return;
        await note(`stop ${unit}`);
        await notListening(unit);
        await rm(file(unit), { force: true });
      },
      async restart(unit) {
        await note(`restart ${unit}`);
        await notListening(unit);
        await startNow(unit);
      },
      enable: async () => undefined,
      disable: async () => undefined,
      isActive: async (unit) => (await readyVersion(unit)) !== undefined,
      reload: async () => await note("reload"),
      why: async (unit) => `${unit} says nothing`,
    },
    health: {
      async gateway(role) {
        const unit = role === "gateway" ? "berth-gateway" : "berth-gateway-standby";
        const version = await running(unit);
        if (version === undefined) return undefined;
        return { pid: 1, version, isReady: (await readyVersion(unit)) === version };
      },
      operator: () => readyVersion("berth-operator"),
      slots: async () => new Map((await readyVersion("berth-operator")) === undefined ? [] : [["primary", "ready"]]),
      stateFormat: async () => Number((await readFile(join(dir, "state-format"), "utf8").catch(() => "")) || 1),
    },
  };
}

/** The options of an update on that machine. `said` gets the lines. */
export function optionsFor(dir: string, said: string[], more: Partial<UpdateOptions> = {}): UpdateOptions {
  const { services, health } = machine(dir);
  const layout = layoutIn(dir);
  return {
    layout,
    root: layout.current,
    channel: "stable",
    from: undefined,
    updateUrl: undefined,
    updateKey: undefined,
    services,
    health,
    readyMs: 200,
    pollMs: 5,
    write: (text) => said.push(text.trimEnd()),
    onStep: () => undefined,
    onProgress: () => undefined,
    ...more,
  };
}

/** The version to which `current` leads, if its program starts; and the version that each unit runs. */
export async function stateOf(dir: string): Promise<Readonly<Record<string, string | undefined>>> {
  const layout = layoutIn(dir);
  const { stdout } = await run(join(layout.current, "bin/berth"), ["--version"]);
  const { health } = machine(dir);
  return {
    current: await readlink(layout.current),
    works: stdout.trim(),
    operator: await health.operator(),
    gateway: (await health.gateway("gateway"))?.version,
    standby: (await health.gateway("standby"))?.version,
  };
}
