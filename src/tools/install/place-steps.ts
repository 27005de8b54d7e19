import { chmod, chown, cp, lchown, lstat, mkdir, readdir, rename, rm, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { syncDirectory, writeFileAtomic } from "../../lib/atomic-file.ts";
import { swapCurrent } from "../release/current.ts";
import type { EnvironmentChange } from "./environment-file.ts";
import { inNameOf } from "./as-owner.ts";
import { missingAbove, statusOf, targetOf } from "./paths.ts";
import type { Owner } from "../../program/owner.ts";
import { ownerOf, serviceUser, type InstallTarget, type Step } from "./install-target.ts";

/** In a configuration directory that a removal has given to root: the next installation gives it back. */
export const givenMark = ".berth-uninstalled";

/** The directories of manifests. */
const kinds = ["slots", "models", "upstreams", "groups"] as const;

/** The user and the group of a system installation. */
export function userStep({ layout, host, recordFile }: InstallTarget): Step {
  const hasGroup = host.groupId(serviceUser) !== undefined;
  return {
    what: `make the user ${serviceUser}, as which the services run`,
    isDone: !layout.isSystem || host.account(serviceUser) !== undefined,
    act: async () => {
      const { made } = recordFile.record;
      await recordFile.note({ made: { ...made, user: true, ...(hasGroup ? {} : { group: true }) } });
      const group = hasGroup ? ["--gid", serviceUser] : ["--user-group"];
      const place = ["--home-dir", layout.stateDir, "--shell", "/usr/sbin/nologin"];
      await host.run("useradd", ["--system", ...group, ...place, serviceUser]);
    },
  };
}

/**
 * The directories of manifests and of state. A configuration directory that is there keeps its owner: one of root's is for
 * manifests that only root, or Git, changes.
 */
export async function directorySteps(site: InstallTarget): Promise<readonly Step[]> {
  const { layout, config, recordFile } = site;
  const { configDir, stateDir } = layout;
  const configOwner = await statusOf(configDir);
  const lacking = await missing([configDir, ...kinds.map((kind) => join(configDir, kind))]);
  const owner = ownerOf(site);
  const state = await statusOf(stateDir);
  const modelsDir = join(stateDir, "models");
  const isOwn = config.modelsDir === modelsDir;
  const mark = join(configDir, givenMark);
  const isGiven = configOwner?.uid === 0 && (await statusOf(mark)) !== undefined;
  const lackingState = await missing([stateDir, ...(isOwn ? [modelsDir] : [])]);
  // Root's: left by a removal, which gives away what it keeps.
  const isForeign = state !== undefined && (owner === undefined || state.uid !== owner.uid);
  return [
    {
      what: isGiven ? `give ${configDir} back to ${serviceUser}` : `make ${configDir}, for manifests`,
      isDone: lacking.length === 0 && !isGiven,
      act: async () => {
        const now = isGiven ? ownerOf(site) : (configOwner ?? ownerOf(site));
        await recordFile.making(...lacking);
        await makeDirectory(configDir, 0o755, now);
        if (isGiven) {
          if (now !== undefined) await give(configDir, 0, now);
          await inNameOf(now, async () => await rm(mark));
        }
        for (const kind of kinds)
          await inNameOf(now, async () => await mkdir(join(configDir, kind), { recursive: true }));
      },
    },
    {
      what: isForeign ? `give ${stateDir} to ${serviceUser}` : `make ${stateDir}, for state and models`,
      isDone: lackingState.length === 0 && !isForeign,
      act: async () => {
        const now = ownerOf(site);
        await recordFile.making(...lackingState);
        await makeDirectory(stateDir, 0o750, now);
        if (isForeign && now !== undefined) await give(stateDir, state.uid, now);
        if (isOwn) await inNameOf(now, async () => await mkdir(modelsDir, { recursive: true, mode: 0o750 }));
      },
    },
  ];
}

/** The release's tree, copied from the unpacked one, under its version. */
export async function programStep({ layout, root, version, recordFile, host }: InstallTarget): Promise<Step> {
  const target = join(layout.prefix, version);
  return {
    what: `copy the program to ${target}`,
    isDone: (await statusOf(target)) !== undefined,
    act: async () => {
      await recordFile.making(...(await missingAbove(layout.prefix)), layout.prefix);
      await mkdir(layout.prefix, { recursive: true });
      await removePartial(layout.prefix);
      const partial = join(layout.prefix, `.${version}.partial`);
      try {
        await cp(root, partial, {
          recursive: true,
          verbatimSymlinks: true,
          // Compiled code that this run has kept.
          filter: (path) => path !== join(root, ".cache"),
        });
        // For everybody to read, whatever the umask of the person who has unpacked it.
        await host.run("chmod", ["-R", "a+rX,go-w", partial]);
        // All of the tree is on the disk before its name is.
        await host.run("sync", ["-f", partial]);
        await rename(partial, target);
        await syncDirectory(layout.prefix);
      } catch (error) {
        await rm(partial, { recursive: true, force: true });
        throw error;
      }
    },
  };
}

/** Copies that a killed run has left. */
async function removePartial(prefix: string): Promise<void> {
  for (const name of await readdir(prefix))
    if (name.startsWith(".") && name.endsWith(".partial"))
      await rm(join(prefix, name), { recursive: true, force: true });
}

/** `current`, which the units and the command lead through. */
export async function currentStep({ layout, version, recordFile }: InstallTarget): Promise<Step> {
  return {
    what: `have ${layout.current} lead to ${version}`,
    isDone: (await targetOf(layout.current)) === version,
    act: async () => {
      // An earlier run of an older release may have begun the record.
      await recordFile.note({ version });
      await swapCurrent(layout, version);
    },
  };
}

/** The command on the PATH. */
export async function commandStep({ layout, recordFile }: InstallTarget): Promise<Step> {
  const target = join(layout.current, "bin/berth");
  return {
    what: `make the command ${layout.command}`,
    isDone: (await targetOf(layout.command)) === target,
    act: async () => {
      await recordFile.making(...(await missingAbove(layout.command)));
      await mkdir(dirname(layout.command), { recursive: true });
      await symlink(target, layout.command);
    },
  };
}

/** The file of settings and secrets. */
export async function environmentStep(site: InstallTarget, change: EnvironmentChange): Promise<Step> {
  const { layout, recordFile } = site;
  const { environmentFile } = layout;
  const known = await statusOf(environmentFile);
  // A removal that keeps it gives it to root's group.
  const isGiven = known?.gid === 0 && layout.isSystem && site.host.account(serviceUser) === undefined;
  const isAdded = change.added.length > 0;
  return {
    what: isAdded
      ? `${known === undefined ? "make" : "add to"} ${environmentFile}: ${change.added.join(", ")}`
      : `give ${environmentFile} back to the group ${serviceUser}`,
    isDone: !isAdded && !isGiven,
    act: async () => {
      await recordFile.making(...(await missingAbove(environmentFile)));
      if (isAdded) await recordFile.note({ restart: true });
      await mkdir(dirname(environmentFile), { recursive: true });
      // The services read it through systemd, as root; their group, for `berth` as that user.
      const own = {
        mode: layout.isSystem ? 0o640 : 0o600,
        uid: process.geteuid?.() ?? 0,
        gid: ownerOf(site)?.gid ?? 0,
      };
      const like = known === undefined || isGiven ? own : known;
      await writeFileAtomic(environmentFile, change.text, { fsync: true, like });
    },
  };
}

async function missing(paths: readonly string[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const path of paths) if ((await statusOf(path)) === undefined) found.push(...(await missingAbove(path)), path);
  return [...new Set(found)];
}

async function makeDirectory(
  path: string,
  mode: number,
  owner: { uid: number; gid: number } | undefined,
): Promise<void> {
  if ((await statusOf(path)) !== undefined) return;
  await mkdir(path, { recursive: true });
  await chmod(path, mode);
  if (owner !== undefined) await chown(path, owner.uid, owner.gid);
}

/**
 * Gives the directory and everything below it that is that user's to another; links are not followed. No process of either
 * user but root's may run meanwhile: it could put a link in the place of a directory.
 */
export async function give(path: string, from: number, owner: Owner): Promise<void> {
  const status = await lstat(path);
  if (status.isDirectory()) for (const name of await readdir(path)) await give(join(path, name), from, owner);
  // A file of root's with another name elsewhere may be a person's.
  if (status.uid !== from || (from === 0 && status.isFile() && status.nlink > 1)) return;
  await lchown(path, owner.uid, owner.gid);
}
