import { basename, join } from "node:path";
import { rm } from "node:fs/promises";
import { compareVersions, type Release, type ReleaseChannel } from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import { bytes as sizeText } from "../../cli/output.ts";
import { errorCode } from "../../lib/error-code.ts";
import { namingFile } from "../../lib/disk-space.ts";
import { lockInstallation } from "../install/installation-lock.ts";
import { readRecord } from "../install/installed-record.ts";
import { activate, finish, type Activation } from "./activate.ts";
import { currentVersion, installedVersions } from "./current.ts";
import { newestRelease, ownTarget, type Offered } from "./release-index.ts";
import { readJournal } from "./journal.ts";
import { releaseAt, removeUpdateLeftovers, updatePlaces } from "./places.ts";
import { besides, copyTo, shown, sourceOf, type Source } from "./source.ts";
import { checkProgram, checkRoom, unpackRelease } from "./unpack.ts";
import { publisherKey, verifyFile } from "./verify.ts";

export interface UpdateOptions extends Activation {
  /** The directory of the running release. */
  readonly root: string;
  readonly channel: ReleaseChannel;
  /** A file or an address that the person has named: an archive, or an index. */
  readonly from: string | undefined;
  /** The settings `update_url` and `update_key`. */
  readonly updateUrl: string | undefined;
  readonly updateKey: string | undefined;
  readonly onProgress: (what: string, doneBytes: number, allBytes: number | undefined) => void;
}

/** The answer of `berth update --check`. */
export interface Check {
  readonly channel: ReleaseChannel;
  readonly installed: string;
  /** Absent: the channel has no release for this machine. */
  readonly newest?: string;
  readonly released?: string;
  readonly is_newer: boolean;
  /** The newest release writes a state that the installed one cannot read: there is no way back. */
  readonly changes_state_format: boolean;
}

/** An archive whose size is not known from an index. */
const archiveLimitBytes = 2 * 1024 ** 3;
/** An unpacked release has at most this many times the size of its archive. */
const unpackedFactor = 5;

/** `berth update --check`. Throws CommandError. */
export async function checkForUpdate(options: UpdateOptions): Promise<Check> {
  const { root, channel, from } = options;
  if (isArchive(from))
    throw new CommandError(
      "update.usage",
      `--check compares with an index of releases, and ${from} is one release`,
      `leave out --check, and \`berth update --from FILE\` installs it`,
    );
  const own = await releaseAt(root);
  const index = await indexOf(options, own);
  const offered = await newestRelease(index, await publisherKey(options.updateKey, root), options);
  const base = { channel, installed: own.version };
  if (offered === undefined) return { ...base, is_newer: false, changes_state_format: false };
  const { version, released, state_format: format } = offered.entry;
  const isNewer = compareVersions(version, own.version) > 0;
  return {
    ...base,
    newest: version,
    released,
    is_newer: isNewer,
    changes_state_format: isNewer && format > own.state_format,
  };
}

/** `berth update`: the newest release of the channel, or the one that `from` names. Throws CommandError. */
export async function update(options: UpdateOptions): Promise<void> {
  const { layout, root, write } = options;
  await using _lock = await lockUpdates(options);
  await finishLast(options);
  const installed = (await currentVersion(layout)) ?? "";
  const key = await publisherKey(options.updateKey, root);
  const release = await obtain(options, installed, key);
  if (release === undefined) return;
  await activate(options, installed, release);
  write(`Berth ${release} is installed; \`berth update --rollback\` goes back to ${installed}\n`);
}

/** `berth update --rollback`: the release before. Throws CommandError. */
export async function rollback(options: UpdateOptions): Promise<void> {
  const { layout, write } = options;
  await using _lock = await lockUpdates(options);
  const back = await finishLast(options);
  if (back !== undefined) {
    write(`Berth ${back} is installed again; \`berth update\` goes to a newer release\n`);
    return;
  }
  const installed = (await currentVersion(layout)) ?? "";
  const there = await installedVersions(layout);
  const to = (await readRecord(layout))?.previous.find((version) => there.includes(version));
  if (to === undefined)
    throw new CommandError("update.none", `no release before ${installed} is here`, "berth update --from FILE");
  const release = await releaseAt(join(layout.prefix, to));
  await checkFormat(options, release);
  await checkProgram(join(layout.prefix, to), to);
  await activate(options, installed, to);
  write(`Berth ${to} is installed again; \`berth update\` goes to ${installed} or a newer release\n`);
}

/**
 * Has the release `to`, which `berth install` has put beside the others, take the place of the installed one. Throws
 * CommandError.
 */
export async function changeTo(options: Activation, to: string): Promise<void> {
  const { layout } = options;
  await using _lock = await lockUpdates(options);
  await finishLast(options);
  const installed = await currentVersion(layout);
  if (installed === undefined || installed === to) return;
  await checkFormat(options, await releaseAt(join(layout.prefix, to)));
  await checkProgram(join(layout.prefix, to), to);
  await activate(options, installed, to);
}

/** The lock of the installation, for what this process writes below it. Throws CommandError. */
async function lockUpdates({ layout }: Activation): Promise<AsyncDisposable> {
  // The user of the services has to read what this process writes, whatever the shell of its caller says.
  process.umask(0o022);
  return await lockInstallation(layout);
}

/**
 * Finishes what a killed update has begun, and removes its files. Returns the version that is installed then, where that
 * is a return to an earlier one. Throws CommandError where neither release becomes ready.
 */
async function finishLast(options: Activation): Promise<string | undefined> {
  const { layout, services, write } = options;
  await removeUpdateLeftovers(layout);
  const journal = await readJournal(layout);
  if (journal === undefined) {
    // A process that was killed right at its end.
    if (services.kind !== "none") await services.stop("berth-gateway-standby");
    return undefined;
  }
  const { from, to, isGoingBack } = journal;
  write(`an update from ${from} to ${to} was interrupted: ${isGoingBack ? `going back to ${from}` : "finishing it"}\n`);
  await finish(options, journal);
  const [now, other] = isGoingBack ? [from, to] : [to, from];
  return compareVersions(now, other) < 0 ? now : undefined;
}

async function indexOf({ from, updateUrl }: UpdateOptions, own: Release): Promise<Source> {
  const named = from ?? updateUrl ?? own.update_url;
  if (named === undefined)
    throw new CommandError(
      "update.no_source",
      "this release names no place of newer ones",
      "set update_url in berth.toml (or SVC_UPDATE_URL), or `berth update --from FILE`",
    );
  return sourceOf(named.endsWith("/") ? `${named}index.json` : named);
}

function isArchive(from: string | undefined): from is string {
  return from !== undefined && /\.(tar\.gz|tgz)$/.test(from);
}

type Key = Awaited<ReturnType<typeof publisherKey>>;

/** Has the wanted release lie beside the others, and returns its version; undefined where there is nothing to do. */
async function obtain(options: UpdateOptions, installed: string, key: Key): Promise<string | undefined> {
  const { layout, root, channel, from, write } = options;
  if (isArchive(from)) {
    const source = sourceOf(from);
    return await fetchRelease(options, { source, key, installed });
  }
  const index = await indexOf(options, await releaseAt(root));
  const offered = await newestRelease(index, key, options);
  if (offered === undefined) {
    write(`there is no release on ${channel} for ${ownTarget()}; ${installed} stays\n`);
    return undefined;
  }
  const { version, released } = offered.entry;
  const order = compareVersions(version, installed);
  if (order <= 0) {
    // The date, since an index that somebody holds back is well signed, too.
    const what = order === 0 ? "the newest release" : `newer than ${version}, the newest`;
    write(`${installed} is ${what} on ${channel}, of ${released}\n`);
    return undefined;
  }
  await checkFormat(options, { version, state_format: offered.entry.state_format });
  if ((await installedVersions(layout)).includes(version)) {
    await checkProgram(join(layout.prefix, version), version);
    return version;
  }
  return await fetchRelease(options, { source: besides(index, offered.file.url), key, installed, offered });
}

interface Fetched {
  readonly source: Source;
  readonly key: Key;
  readonly installed: string;
  /** The entry of the index; absent: the person has named the archive. */
  readonly offered?: Offered;
}

async function fetchRelease(options: UpdateOptions, fetched: Fetched): Promise<string | undefined> {
  const { layout, write, onStep, onProgress } = options;
  const { source, key, installed, offered } = fetched;
  const { archive } = updatePlaces(layout);
  const name = offered === undefined ? basename(shown(source)) : `Berth ${offered.entry.version}`;
  const file = offered?.file;
  try {
    if (file !== undefined) await checkRoom(layout, file.bytes + file.unpacked_bytes);
    onStep("download");
    const copied = await copyTo(source, archive, {
      limitBytes: file?.bytes ?? archiveLimitBytes,
      onSize: async (bytes) => {
        if (file === undefined && bytes !== undefined) await checkRoom(layout, bytes * (1 + unpackedFactor));
      },
      onProgress: (bytes) => onProgress(`fetching ${name}`, bytes, file?.bytes),
    });
    if (file !== undefined && (copied.sha256 !== file.sha256 || copied.bytes !== file.bytes))
      throw new CommandError(
        "update.checksum",
        `${shown(source)} is not the file of the index: its SHA-256 is ${copied.sha256}, ${sizeText(copied.bytes)}`,
        "nothing was installed; try again, or ask the publisher",
      );
    onStep("signature");
    await verifyFile(key, source, archive);
    onStep("unpack");
    const release = await unpackRelease(layout, archive, async (found) => {
      const { version, target } = found;
      const isWanted = offered === undefined || offered.entry.version === version;
      if (target !== ownTarget() || !isWanted)
        throw new CommandError(
          "update.archive",
          `the archive is Berth ${version} for ${target}`,
          `this machine needs ${offered?.entry.version ?? "a release"} for ${ownTarget()}`,
        );
      await checkFormat(options, found);
    });
    if (release.version === installed) {
      write(`${installed} is installed already\n`);
      return undefined;
    }
    if (compareVersions(release.version, installed) < 0)
      write(`${release.version} is older than ${installed}, and can read its state: going down\n`);
    return release.version;
  } catch (error) {
    throw fullDisk(error, archive);
  } finally {
    await rm(archive, { force: true });
  }
}

function fullDisk(error: unknown, path: string): unknown {
  const code = errorCode(error);
  if (code !== "ENOSPC" && code !== "EDQUOT") return namingFile(error, path);
  return new CommandError("update.disk_full", `no space is left for ${path}`, "make room there, then try again");
}

/** Throws CommandError where the release cannot read the present state. */
async function checkFormat({ health }: Activation, release: Pick<Release, "version" | "state_format">): Promise<void> {
  const written = await health.stateFormat();
  if (written <= release.state_format) return;
  throw new CommandError(
    "update.state_format",
    `Berth ${release.version} reads the state's format ${release.state_format}, and the state has format ${written}`,
    "a newer release is needed; to go back anyway, restore a backup of the state directory from before",
  );
}
