import { constants } from "node:fs";
import { access, readFile, statfs } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { releaseSchema } from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import { bytes } from "../../cli/output.ts";
import { userName } from "../../lib/accounts.ts";
import { errorCode } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { isClone } from "../../program/clone.ts";
import { isRelease } from "../../program/release.ts";
import { nearest, statusOf, targetOf } from "./paths.ts";
import { ownerOf, serviceUser, type InstallTarget } from "./install-target.ts";
import { startedUnits } from "./service-steps.ts";

/** Throws CommandError where the program is no unpacked release: an installation copies a whole tree. */
export function checkRelease(root: string): void {
  if (isRelease(root)) return;
  const what = isClone(root) ? "a clone of the sources" : "a package of npm";
  const next = isClone(root)
    ? "unpack a release and run its install.sh (`make release` makes one), or run this clone with `berth up`"
    : "unpack a release and run its install.sh, or run this package with `berth up`";
  throw new CommandError("install.no_release", `${root} is ${what}, and only a release can be installed`, next);
}

/** Everything that would stop an installation in its middle. Throws CommandError; nothing has been changed then. */
export async function checkMachine(site: InstallTarget, { hasEdge }: { readonly hasEdge: boolean }): Promise<void> {
  checkAccount(site);
  await checkOwners(site);
  await checkCommand(site);
  await checkWritable(site);
  await checkSpace(site);
  await checkPorts(site, hasEdge);
}

function checkAccount({ layout, host }: InstallTarget): void {
  const account = layout.isSystem ? host.account(serviceUser) : undefined;
  if (account === undefined || account.home === layout.stateDir) return;
  throw new CommandError(
    "install.user_taken",
    `the user ${serviceUser} is there already with the home directory ${account.home}, so it is not Berth's`,
    `if it may become Berth's: usermod --home ${layout.stateDir} ${serviceUser}`,
  );
}

async function checkOwners(site: InstallTarget): Promise<void> {
  const { layout } = site;
  const own = process.geteuid?.() ?? 0;
  const service = ownerOf(site)?.uid ?? own;
  // The services' user may not change the program, which root runs too.
  const owners = {
    [layout.configDir]: [0, own, service],
    [layout.stateDir]: [0, own, service],
    [layout.prefix]: [own],
  };
  for (const [directory, allowed] of Object.entries(owners)) {
    const status = await statusOf(directory);
    if (status === undefined || allowed.includes(status.uid)) continue;
    throw new CommandError(
      "install.directory_foreign",
      `${directory} belongs to ${userName(status.uid)}, who could change what the services run`,
      `move it away, or make it yours: chown -R ${userName(own, false)} ${directory}`,
    );
  }
}

async function checkCommand({ layout }: InstallTarget): Promise<void> {
  const status = await statusOf(layout.command);
  if (status === undefined || (await targetOf(layout.command)) === join(layout.current, "bin/berth")) return;
  throw new CommandError(
    "install.command_taken",
    `${layout.command} is there already, and does not lead to ${layout.current}`,
    `rm ${layout.command}`,
  );
}

async function checkWritable({ layout }: InstallTarget): Promise<void> {
  const { prefix, configDir, stateDir, command, environmentFile, unitsDir } = layout;
  for (const path of [prefix, configDir, stateDir, dirname(command), dirname(environmentFile), unitsDir]) {
    const place = await nearest(path);
    const code = await access(place, constants.W_OK | constants.X_OK).then(
      () => undefined,
      (error: unknown) => errorCode(error) ?? "EACCES",
    );
    if (code === undefined) continue;
    const why = code === "EROFS" ? "its file system is read-only" : "you have no right to write there";
    throw new CommandError(
      "install.not_writable",
      `${path} cannot be made: ${why} (${place})`,
      code === "EROFS"
        ? `make it writable, as by: mount -o remount,rw ${place}`
        : layout.isSystem
          ? undefined
          : "make the directory yours, or install as root",
    );
  }
}

async function checkSpace({ layout, root, version }: InstallTarget): Promise<void> {
  if ((await statusOf(join(layout.prefix, version))) !== undefined) return;
  const release = releaseSchema.safeParse(parseJson(await readFile(join(root, "release.json"), "utf8")));
  if (!release.success)
    throw new CommandError("install.release_invalid", `${root}/release.json does not read`, "unpack the release again");
  const place = await nearest(layout.prefix);
  const { bavail, bsize } = await statfs(place);
  if (bavail * bsize >= release.data.unpacked_bytes) return;
  throw new CommandError(
    "install.no_space",
    `${layout.prefix} needs ${bytes(release.data.unpacked_bytes)}, and ${bytes(bavail * bsize)} are free`,
    "make room there",
  );
}

async function checkPorts({ config, services, host }: InstallTarget, hasEdge: boolean): Promise<void> {
  if (services.kind === "none") return;
  const [operator, gateway] = await Promise.all(startedUnits.map(async (unit) => await services.isActive(unit)));
  if (operator !== true) await checkPort(config.operatorHost, config.operatorPort, "SVC_OPERATOR_PORT");
  if (gateway !== true) {
    await checkPort(config.host, config.port, "SVC_PORT");
    if (config.chatPort !== 0) await checkPort(config.host, config.chatPort, "SVC_CHAT_PORT");
  }
  if (!hasEdge) return;
  const isCaddys = await host.run("systemctl", ["is-active", "--quiet", "caddy.service"]).then(
    () => true,
    () => false,
  );
  if (!isCaddys) for (const port of [80, 443]) await checkPort("0.0.0.0", port, undefined);
}

async function checkPort(address: string, port: number, setting: string | undefined): Promise<void> {
  const code = await new Promise<string | undefined>((resolve) => {
    const server = createServer();
    server.once("error", (error) => resolve(errorCode(error) ?? error.message));
    server.listen({ host: address, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
  if (code === undefined) return;
  if (code === "EADDRINUSE")
    throw new CommandError(
      "install.port_taken",
      `port ${port} is taken by another program`,
      setting === undefined
        ? "stop that program, or leave the edge proxy out with --no-edge"
        : `stop that program, or set ${setting} to another port`,
    );
  if (code === "EACCES")
    throw new CommandError(
      "install.port_taken",
      `port ${port} needs privileges`,
      `set ${setting ?? "another port"} to a port above 1023`,
    );
  throw new CommandError(
    "install.port_taken",
    `${address}:${port} cannot be used (${code})`,
    "set SVC_HOST to an address of this machine",
  );
}
