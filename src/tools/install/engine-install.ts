import { spawn } from "node:child_process";
import { copyFile, cp, mkdir, readFile } from "node:fs/promises";
import { arch, platform } from "node:os";
import { dirname, join } from "node:path";
import { isClone } from "../../program/clone.ts";
import { embeddedBeside, embeddedInState, hasEmbedded } from "../../program/embedded.ts";
import { isRelease } from "../../program/release.ts";
import { integrityProblem, removePackage } from "./engine-integrity.ts";

/**
 * CPU builds of llama.cpp by machine, each with its hash in engines/package-lock.json; the CUDA and Vulkan builds weigh
 * more than half a gigabyte and are left out.
 */
const platformPackages: Readonly<Record<string, string>> = {
  "linux x64": "linux-x64",
  "linux arm64": "linux-arm64",
};

/**
 * Installs the embedded engine beside a clone's sources, or into the state directory of an installed package. Prints
 * each step; does nothing when the right version is there, nor in a release, which brings the engine. Returns the exit code.
 */
export async function installEmbedded(options: {
  stateDir: string | undefined;
  onLine: (line: string) => void;
}): Promise<number> {
  const { onLine } = options;
  const root = dirname(embeddedBeside);
  if (isRelease(root)) {
    const isThere = hasEmbedded(embeddedBeside);
    onLine(
      isThere ? "the embedded engine comes with this release" : `${root} is damaged: the embedded engine is not there`,
    );
    return isThere ? 0 : 1;
  }
  const library = platformPackages[`${platform()} ${arch()}`];
  if (library === undefined) {
    onLine(`the embedded engine has no build for ${platform()} ${arch()}; put a llama-server on PATH instead`);
    return 1;
  }
  const isInClone = isClone(root);
  const target = isInClone ? embeddedBeside : embeddedInState(options.stateDir ?? "");
  if (!isInClone) {
    await mkdir(target, { recursive: true });
    for (const file of ["package.json", "package-lock.json"])
      await copyFile(join(embeddedBeside, file), join(target, file));
    await cp(join(embeddedBeside, "src"), join(target, "src"), { recursive: true });
  }
  return await installInto(target, library, onLine);
}

/**
 * Installs the packages that `target`/package.json and its lockfile name, and `library` of llama.cpp. A right version
 * counts as installed only with the right hash: a run that was killed may have left a package that nobody checked.
 */
export async function installInto(target: string, library: string, onLine: (line: string) => void): Promise<number> {
  const platformPackage = `@node-llama-cpp/${library}`;
  const version = await versionOf(join(target, "package.json"), ["dependencies", "node-llama-cpp"]);
  const modules = join(target, "node_modules");
  const installed = await versionOf(join(modules, "node-llama-cpp", "package.json"), ["version"]);
  const installedLibrary = await versionOf(join(modules, platformPackage, "package.json"), ["version"]);
  if (installed === version && installedLibrary === version) {
    const flaw = await integrityProblem(target, platformPackage);
    if (flaw === undefined) {
      onLine(`the embedded engine (llama.cpp through node-llama-cpp ${version ?? "?"}) is installed`);
      return 0;
    }
    await removePackage(target, platformPackage);
    onLine(`${flaw}; it was removed, and is installed again`);
  }
  onLine(`installing the embedded engine (node-llama-cpp ${version ?? "?"}, CPU build, about 85 MB) into ${target}`);
  const quiet = [
    "--no-fund",
    "--no-audit",
    "--ignore-scripts",
    "--omit=optional",
    "--fetch-timeout=60000",
    "--fetch-retries=1",
  ];
  const code =
    (await npm(["install", "--no-save", ...quiet], target, onLine)) ||
    (await npm(
      ["install", "--no-save", "--no-package-lock", ...quiet, `${platformPackage}@${version ?? ""}`],
      target,
      onLine,
    ));
  const problem = code === 0 ? await integrityProblem(target, platformPackage) : undefined;
  if (problem !== undefined) {
    await removePackage(target, platformPackage);
    onLine(`${problem}; it was removed`);
    return 1;
  }
  onLine(
    code === 0
      ? "the embedded engine is installed; a running Berth uses it after its next start"
      : "npm could not install it: is the package registry in reach?",
  );
  return code;
}

async function versionOf(file: string, path: readonly string[]): Promise<string | undefined> {
  try {
    let value: unknown = JSON.parse(await readFile(file, "utf8"));
    for (const key of path) {
      if (typeof value !== "object" || value === null) return undefined;
      value = Object.entries(value).find(([name]) => name === key)?.[1];
    }
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

async function npm(args: readonly string[], cwd: string, onLine: (line: string) => void): Promise<number> {
  return await new Promise((resolve) => {
    const child = spawn("npm", [...args], { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let problems = "";
    child.stdout.resume();
    child.stderr.on("data", (chunk: Buffer) => {
      problems = (problems + chunk.toString()).slice(-4000);
    });
    child.once("error", (error) => {
      onLine(`npm could not be run: ${error.message}`);
      resolve(1);
    });
    child.once("close", (code) => {
      if (code !== 0) onLine(problems.trimEnd());
      resolve(code ?? 1);
    });
  });
}
