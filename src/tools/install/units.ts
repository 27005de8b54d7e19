import { mkdir, readFile, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import type { InstalledRecord } from "../../api/installed-record.ts";
import { CommandError } from "../../cli/client.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { sha256 } from "../../lib/canonical.ts";
import { readText } from "../../lib/read-text.ts";
import type { Layout } from "./layout.ts";

/** The names of the units of an installation. The standby is started during an update alone. */
export const unitNames = {
  operator: "berth-operator.service",
  gateway: "berth-gateway.service",
  standby: "berth-gateway-standby.service",
} as const;

/** The link by which the service manager starts the unit at boot, or at a user's login. */
export function wantsLink({ unitsDir, isSystem }: Layout, name: string): string {
  return join(unitsDir, isSystem ? "multi-user.target.wants" : "default.target.wants", name);
}

export interface Unit {
  /** Its path below the directory of units. */
  readonly path: string;
  readonly text: string;
}

export interface UnitChange {
  /** Paths of the units that were written. */
  readonly written: readonly string[];
  /** Paths of the units that a person has edited: each was kept, and the new text is beside it in `PATH.new`. */
  readonly kept: readonly string[];
  /** For the record: the hashes of the texts that Berth wrote. */
  readonly hashes: InstalledRecord["units"];
}

/**
 * The places as they stand in the files of `manifests/systemd/`, the longest first. The release that is installed renders
 * the files of the next one: they keep these places, and what `standbyOf` and `forUser` look for.
 */
const places = [
  ["/usr/lib/berth/current", "current"],
  ["/etc/default/berth", "environmentFile"],
  ["/var/lib/berth", "stateDir"],
  ["/etc/berth", "configDir"],
] as const satisfies readonly (readonly [string, keyof Layout])[];

/** The directives that a user's own service manager can follow without root's rights: other directives of `[Service]` are left out. */
const userDirectives: ReadonlySet<string> = new Set([
  "Type",
  "Environment",
  "EnvironmentFile",
  "ExecStart",
  "Restart",
  "RestartSec",
  "RuntimeMaxSec",
  "KillMode",
  "TimeoutStopSec",
  "LimitNOFILE",
  "UMask",
  "NoNewPrivileges",
  "RestrictSUIDSGID",
  "RestrictRealtime",
  "LockPersonality",
  "SystemCallArchitectures",
]);

/**
 * The units of the release in `root`, for these places. Throws CommandError where a place has a character that means
 * something else in a unit.
 */
export async function unitsOf(root: string, layout: Layout): Promise<readonly Unit[]> {
  const source = join(root, "manifests/systemd");
  const [operator, gateway] = await Promise.all(
    [unitNames.operator, unitNames.gateway].map(async (name) =>
      rendered(await readFile(join(source, name), "utf8"), layout),
    ),
  );
  if (operator === undefined || gateway === undefined) return [];
  return [
    { path: join(layout.unitsDir, unitNames.operator), text: operator },
    { path: join(layout.unitsDir, unitNames.gateway), text: gateway },
    { path: join(layout.unitsDir, unitNames.standby), text: standbyOf(gateway) },
  ];
}

function rendered(text: string, layout: Layout): string {
  let placed = text;
  for (const [place, key] of places) {
    const path = layout[key];
    if (!/^[\p{L}\p{N}./_@:+-]+$/u.test(path))
      throw new CommandError(
        "install.place_unusable",
        `${path} cannot stand in a unit of systemd: it has a blank or another special character`,
        "use another home directory or XDG directory, or run `berth up`",
      );
    placed = placed.replaceAll(place, path);
  }
  return layout.isSystem ? placed : forUser(placed);
}

function forUser(text: string): string {
  let section = "";
  const lines = text.split("\n").filter((line) => {
    if (line.startsWith("[")) section = line;
    const [directive = ""] = line.split("=", 1);
    if (line === "" || line.startsWith("[")) return true;
    // The comments of the source speak of what is left out here, too.
    if (line.startsWith("#")) return false;
    // Units of the system do not exist for a user's manager.
    if (section === "[Unit]" && directive === "Wants") return false;
    return section !== "[Service]" || userDirectives.has(directive);
  });
  const kept = lines
    .join("\n")
    .replace(/^After=.*\n/m, (line) => (line.includes(unitNames.operator) ? `After=${unitNames.operator}\n` : ""))
    .replace("WantedBy=multi-user.target", "WantedBy=default.target");
  return `${kept.replace(/\n{3,}/g, "\n\n").trim()}\n`;
}

/** The gateway that takes requests while an update restarts the other one; nothing starts it at boot. */
function standbyOf(gateway: string): string {
  return (
    gateway
      .replace(
        /^# .*\n/,
        "# A second gateway on the same port, which `berth update` starts while it restarts the first one.\n",
      )
      .replace(/^Description=.*$/m, "Description=Berth gateway, standby during an update")
      .replace(/^(ExecStart=.* serve)$/m, "$1 --standby")
      // An update that is killed leaves it behind: it ends by itself, and is not started again.
      .replace(/^Restart=always\nRestartSec=.*$/m, "Restart=no\nRuntimeMaxSec=30min")
      .replace(/\n\[Install\][^]*$/, "")
  );
}

/** A unit that a person has masked is a link to /dev/null: an empty text, as systemd takes it. */
async function textAt(path: string): Promise<string | undefined> {
  return (await readlink(path).catch(() => "")) === "/dev/null" ? "" : await readText(path);
}

/** Whether a person has edited the unit, made it, or written there before Berth did. */
function isEdited(found: string | undefined, unit: Unit, recorded: InstalledRecord["units"]): boolean {
  return found !== undefined && found !== unit.text && sha256(found) !== recorded[unit.path];
}

/** The change that `writeUnits` would make, without making it. */
export async function compareUnits(units: readonly Unit[], recorded: InstalledRecord["units"]): Promise<UnitChange> {
  const written: string[] = [];
  const kept: string[] = [];
  const hashes: Record<string, string> = {};
  for (const unit of units) {
    const found = await textAt(unit.path);
    const known = recorded[unit.path];
    if (isEdited(found, unit, recorded)) {
      kept.push(unit.path);
      if (known !== undefined) hashes[unit.path] = known;
    } else {
      if (found !== unit.text) written.push(unit.path);
      hashes[unit.path] = sha256(unit.text);
    }
  }
  return { written, kept, hashes };
}

/**
 * Writes the units, except those that a person has edited, whose new text is written to `PATH.new`. The service manager
 * must be reloaded afterwards where any was written. Rejects with the file system's error.
 */
export async function writeUnits(units: readonly Unit[], recorded: InstalledRecord["units"]): Promise<UnitChange> {
  const change = await compareUnits(units, recorded);
  for (const unit of units) {
    const isKept = change.kept.includes(unit.path);
    await mkdir(join(unit.path, ".."), { recursive: true });
    if (isKept && (await readText(`${unit.path}.new`)) !== unit.text)
      await writeFileAtomic(`${unit.path}.new`, unit.text, { fsync: true });
    if (change.written.includes(unit.path)) await writeFileAtomic(unit.path, unit.text, { fsync: true });
    if (!isKept) await rm(`${unit.path}.new`, { force: true });
  }
  return change;
}
