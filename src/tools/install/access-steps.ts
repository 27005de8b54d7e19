import { createHash } from "node:crypto";
import { chown, lstat, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { CommandError } from "../../cli/client.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { sha256 } from "../../lib/canonical.ts";
import { readText } from "../../lib/read-text.ts";
import { checkAdmin, checkNames, renderProxy } from "../proxy/render.ts";
import { inNameOf } from "./as-owner.ts";
import { statusOf } from "./paths.ts";
import { ownerOf, type Host, type InstallTarget, type Step } from "./install-target.ts";
import { filesIn } from "./state-files.ts";

/** The configuration file of Debian's Caddy. */
export const debiansCaddyfile = "/etc/caddy/Caddyfile";
/** Beside the Caddyfile: what it was before the installation, which the removal puts back. */
export const caddyfileBefore = (file: string): string => `${file}.before-berth`;

/** The first token, which is shown once. `show` gets it. */
export async function tokenStep(site: InstallTarget, show: (token: string) => void): Promise<Step> {
  const known = await filesIn(join(site.layout.stateDir, "auth/tokens"));
  return {
    what: "make the first token, for chats and for looking at slots",
    // Unreadable: there may be some.
    isDone: known === undefined || known.length > 0,
    act: async () => {
      const { openStore } = await import("../../store/open.ts");
      // Before the change of user, who may have no right to read this program.
      await using tokens = await openStore(site.config).tokens();
      await inNameOf(ownerOf(site), async () => {
        const { token } = await tokens.create({ label: "first", scope: "all" }, { isConfirmed: true });
        show(token);
      });
    },
  };
}

/** Throws CommandError where the edge proxy cannot be made: no Caddy, or a name that is wrong. */
export async function checkEdge(site: Pick<InstallTarget, "config" | "host" | "layout">): Promise<void> {
  const { config, host, layout } = site;
  if (!host.has("caddy"))
    throw new CommandError(
      "install.no_caddy",
      "the edge proxy needs Caddy, which is not installed",
      "apt-get install -y --no-install-recommends caddy; or leave the proxy out with --no-edge",
    );
  checkNames(config);
  const { openAdmin } = await import("../../store/open-admin.ts");
  const isKnown = (await statusOf(layout.stateDir)) !== undefined && (await openAdmin(config).read()) !== undefined;
  if (config.adminPassword !== undefined || !isKnown) checkAdmin(config);
}

/** The edge proxy: Caddy's configuration, with the hash of the password. A person's Caddyfile stays: `note` reports it. */
export async function edgeStep(site: InstallTarget, file: string, note: (text: string) => void): Promise<Step> {
  const { config, host, recordFile, layout, services } = site;
  const { record } = recordFile;
  const found = await readText(file);
  const isAdminKnown =
    (await statusOf(join(layout.stateDir, "auth/admin.json"))) !== undefined && (await hasAdmin(site));
  // A run that was killed may have written it, and not the record.
  const isWritten = found !== undefined && isAdminKnown && (await rendered(site)) === found;
  const isRecorded = found !== undefined && sha256(found) === record.proxy?.sha256;
  const isOwn = found === undefined || isRecorded || isWritten;
  const isDebians = found !== undefined && !isOwn && (await isUntouched(host, file, found));
  const isKept = !isOwn && !isDebians;
  if (isKept && isAdminKnown) note(kept(file));
  return {
    what: isKept ? "keep the hash of the edge proxy's password" : `write ${file}: HTTPS for ${config.hostname}`,
    isDone: isKept ? isAdminKnown : isWritten && isRecorded && record.proxy?.loaded === true,
    act: async () => {
      const text = await rendered(site);
      if (isKept) return note(kept(file));
      if (isDebians) await rename(file, caddyfileBefore(file));
      await writeFileAtomic(file, text, { fsync: true, mode: 0o640 });
      const proxy = { file, sha256: sha256(text) };
      await recordFile.note({ proxy });
      const group = host.groupId("caddy");
      if (group !== undefined) await chown(file, (await lstat(file)).uid, group);
      if (services.kind === "none") note("no service manager runs here: run `caddy run` yourself\n");
      else await loadCaddy(host, file);
      await recordFile.note({ proxy: { ...proxy, loaded: true } });
    },
  };
}

async function loadCaddy(host: Host, file: string): Promise<void> {
  await host.run("systemctl", ["enable", "caddy.service"]);
  await host.run("systemctl", ["reload-or-restart", "caddy.service"]).catch((error: unknown) => {
    throw new CommandError("install.edge_failed", `Caddy does not take ${file}`, "journalctl -u caddy -n 50", error);
  });
}

/** Puts back the Caddyfile of before, where no person has edited Berth's. Returns whether the file was Berth's still. */
export async function removeEdge(file: string, hash: string): Promise<boolean> {
  const before = caddyfileBefore(file);
  const found = await readText(file);
  if (found !== undefined && sha256(found) !== hash) return false;
  if ((await statusOf(before)) !== undefined) await rename(before, file);
  else if (found !== undefined) await unlink(file);
  return true;
}

function kept(file: string): string {
  return `${file} was written by somebody else and stays; \`berth proxy render\` prints Berth's part (docs/edge.md)\n`;
}

/** Whether it is the file of the package, by the sum that dpkg keeps of it. */
async function isUntouched(host: Host, file: string, text: string): Promise<boolean> {
  const listed = await host.run("dpkg-query", ["-W", "-f=${Conffiles}", "caddy"]).catch(() => "");
  return listed.includes(` ${file} ${createHash("md5").update(text).digest("hex")}`);
}

async function hasAdmin({ config }: InstallTarget): Promise<boolean> {
  const { openAdmin } = await import("../../store/open-admin.ts");
  const store = openAdmin(config);
  const { adminUser, adminPassword } = config;
  if (adminPassword !== undefined) return await store.has(adminUser ?? "", adminPassword);
  return (await store.read()) !== undefined;
}

async function rendered({ env }: InstallTarget): Promise<string> {
  return (await renderProxy({ env, httpPort: 80, httpsPort: 443 })).text;
}
