// `make release`: every file of a release, in a directory that a publisher serves. The same commit, version and key give the
// same bytes (docs/releasing.md).
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  releaseChannels,
  releaseTargets,
  releaseVersionSchema,
  stateFormat,
  type IndexEntry,
  type ReleaseFile,
  type ReleaseTarget,
} from "../../src/api/release.ts";
import { fileDigest } from "../../src/lib/file-digest.ts";
import { berthArchive } from "../images/berth.ts";
import { embeddedArchive } from "../images/embedded.ts";
import { tarball } from "./archive.ts";
import { chartPackage } from "./chart.ts";
import { debianPackage } from "./debian.ts";
import { npmPackage, writeJson, writeProgram } from "./program.ts";
import { checkKey, installScript, isFirstChoice, readIndex, sign, sumsOf, withEntry } from "./publication.ts";
import { root } from "./ran.ts";
import { parseSecretKey } from "./signature.ts";
import { writeTree } from "./tree.ts";

const say = (line: string): boolean => process.stdout.write(`${line}\n`);

interface Order {
  readonly version: string;
  readonly channel: (typeof releaseChannels)[number];
  /** Ends in a slash; empty where none is given. */
  readonly url: string;
  readonly directory: string;
  readonly key: ReturnType<typeof parseSecretKey> | undefined;
  readonly targets: readonly ReleaseTarget[];
  /** The archives alone: no packages, images and chart. */
  readonly isArchiveOnly: boolean;
  readonly seconds: number;
}

async function readOrder(): Promise<Order> {
  const { values } = parseArgs({
    options: {
      version: { type: "string", default: "" },
      channel: { type: "string", default: "" },
      url: { type: "string", default: "" },
      directory: { type: "string", default: "" },
      key: { type: "string", default: "" },
      only: { type: "string", default: "" },
    },
  });
  const version = releaseVersionSchema.safeParse(values.version);
  if (!version.success) throw new Error(`VERSION=${values.version}: give ${version.error.issues[0]?.message ?? ""}`);
  const channel = releaseChannels.find((each) => each === (values.channel || "stable"));
  if (channel === undefined) throw new Error(`CHANNEL=${values.channel}: give one of ${releaseChannels.join(", ")}`);
  // `berth update` takes HTTP from this machine alone.
  if (values.url !== "" && !/^(https:\/\/[^/]|http:\/\/(127\.0\.0\.1|localhost|\[::1\])[:/])/.test(values.url))
    throw new Error(`URL=${values.url}: give an address that begins with https://`);
  const targets = releaseTargets.filter((each) => values.only === "" || each === values.only);
  if (targets.length === 0) throw new Error(`ONLY=${values.only}: give one of ${releaseTargets.join(", ")}`);
  return {
    version: version.data,
    channel,
    url: values.url.replace(/([^/])$/, "$1/"),
    directory: resolve(values.directory || "release"),
    key: values.key === "" ? undefined : parseSecretKey(await readFile(values.key, "utf8"), values.key),
    targets,
    isArchiveOnly: values.only !== "",
    seconds: sourceSeconds(),
  };
}

/** https://reproducible-builds.org/specs/source-date-epoch/, else the time of the commit. */
function sourceSeconds(): number {
  const given = process.env["SOURCE_DATE_EPOCH"] ?? "";
  if (/^\d{1,10}$/.test(given)) return Number(given);
  return Number(execFileSync("git", ["log", "-1", "--format=%ct"], { cwd: root, encoding: "utf8" }));
}

/** Writes the archive and, unless archives are all, the Debian package. */
async function writeTarget(
  { version, url, key, seconds, isArchiveOnly }: Order,
  target: ReleaseTarget,
  { program, made, work }: { readonly program: string; readonly made: string; readonly work: string },
): Promise<ReleaseFile> {
  const name = `berth-${version}`;
  const parent = join(work, target);
  const tree = join(parent, name);
  const unpackedBytes = await writeTree(tree, program, target, {
    version,
    updateUrl: url === "" ? undefined : `${url}index.json`,
    publicKey: key?.publicText,
    seconds,
    work: join(parent, "work"),
  });
  const file = join(made, `${name}-${target}.tar.gz`);
  await tarball(file, parent, name, seconds);
  if (!isArchiveOnly) {
    const staged = join(parent, "debian");
    await debianPackage(join(made, `${name}-${target}.deb`), { tree, staged, version, target, unpackedBytes, seconds });
  }
  await rm(parent, { recursive: true });
  return {
    url: `${name}-${target}.tar.gz`,
    sha256: (await fileDigest(file, "sha256")).toString("hex"),
    bytes: (await stat(file)).size,
    unpacked_bytes: unpackedBytes,
  };
}

/** The forms of the program that are no trees of a release. */
async function writeOthers(
  { version, seconds }: Order,
  { program, made, work }: { readonly program: string; readonly made: string; readonly work: string },
): Promise<void> {
  await npmPackage(join(made, `berth-npm-${version}.tgz`), program, work);
  await chartPackage(join(made, `berth-chart-${version}.tgz`), version, work, seconds);
  await berthArchive(join(made, `berth-image-${version}-linux-${arch()}.tar`), version);
  await embeddedArchive(join(made, `berth-embedded-image-${version}-linux-${arch()}.tar`));
}

async function main(): Promise<void> {
  // The files of a release are served to everybody.
  process.umask(0o022);
  const order = await readOrder();
  const { version, channel, url, directory, key, targets, isArchiveOnly, seconds } = order;
  const older = await readIndex(directory);
  await checkKey(directory, key);
  const changed = execFileSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" }) !== "";
  if (changed) say("some files are not committed; the release has them as they are");
  await mkdir(directory, { recursive: true });
  const work = await mkdtemp(join(directory, ".making-"));
  process.on("exit", () => rmSync(work, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  const made = join(work, "made");
  const program = join(work, "program");
  await mkdir(made);
  await writeProgram(program, version);
  const files: IndexEntry["files"] = {};
  for (const target of targets) files[target] = await writeTarget(order, target, { program, made, work });
  if (!isArchiveOnly) await writeOthers(order, { program, made, work });
  const released = new Date(seconds * 1000).toISOString().slice(0, 10);
  const index = withEntry(older, channel, { version, released, state_format: stateFormat, files });
  if (isFirstChoice(index, version)) {
    const all = index.channels[channel]?.find((entry) => entry.version === version)?.files;
    const sums = { x64: all?.["linux-x64"]?.sha256 ?? "none", arm64: all?.["linux-arm64"]?.sha256 ?? "none" };
    await writeFile(join(made, "install.sh"), await installScript(version, url, sums), { mode: 0o755 });
  }
  const artefacts = (await readdir(made)).toSorted();
  const sums = await readFile(join(directory, "SHA256SUMS"), "utf8").catch(() => "");
  const paths = artefacts.map((name) => join(made, name));
  await writeFile(join(made, "SHA256SUMS"), await sumsOf(sums, paths));
  await writeJson(join(made, "index.json"), index);
  if (key !== undefined) {
    const signed = [...artefacts.filter((name) => name.endsWith(".tar.gz")), "SHA256SUMS", "index.json"];
    for (const name of signed) await sign(join(made, name), version, key);
    await writeFile(join(made, "minisign.pub"), key.publicText);
  }
  // The index comes last: what it names is there.
  const last = (name: string): boolean => name.startsWith("index.json");
  const names = (await readdir(made)).toSorted(
    (left, right) => Number(last(left)) - Number(last(right)) || (left < right ? -1 : 1),
  );
  for (const name of names) {
    await rename(join(made, name), join(directory, name));
    const { size } = await stat(join(directory, name));
    say(`${join(directory, name)} (${(size / 1e6).toFixed(1)} MB)`);
  }
  if (!isArchiveOnly) say(`the images are for linux-${arch()} alone: build those of another processor on one`);
  if (key === undefined) say("nothing is signed: `berth update` refuses it until KEY= names a key of `minisign -G -W`");
}

try {
  await main();
} catch (error) {
  process.stderr.write(`make release: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
