import { access, constants, readdir } from "node:fs/promises";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import { literalSecrets } from "../../api/masked.ts";
import type { SlotSpec } from "../../api/slot.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { readSmallText } from "../../lib/small-file.ts";
import type { Settings } from "../../program/settings.ts";
import { fail, ok, warn, type Finding } from "./finding.ts";

const shownProblems = 20;

/** Slots that manifests declare, by name. */
export type DeclaredSlots = ReadonlyMap<string, SlotSpec>;

/** The resources that manifests of a directory declare, as far as they can be read. */
interface Declared {
  readonly slots: DeclaredSlots;
  /** The names of SlotGroups. */
  readonly groups: ReadonlySet<string>;
  readonly counts: string;
}

export function settingsFindings({ warnings, config: { configDir } }: Settings): Finding[] {
  if (warnings.length === 0) return [ok("settings", "the environment and berth.toml are valid")];
  return warnings.map((warning) => warn("settings", warning, `correct it; settings of a file are in ${configDir}`));
}

/** The configuration directory and its files. Never throws. */
export async function configurationFindings(
  configDir: string,
): Promise<{ readonly findings: readonly Finding[]; readonly slots: DeclaredSlots }> {
  const none: DeclaredSlots = new Map();
  try {
    await readdir(configDir);
  } catch (error) {
    const code = errorCode(error) ?? errorMessage(error);
    const finding =
      code === "ENOENT"
        ? warn(
            "configuration",
            `${configDir} is not there: nothing is declared`,
            `mkdir -p ${configDir}/slots, then \`berth slot create\` or a manifest of yours`,
          )
        : fail(
            "configuration",
            `${configDir} cannot be read (${code})`,
            "run this as the user that runs Berth, or name another with SVC_CONFIG_DIR",
          );
    return { findings: [finding], slots: none };
  }
  const { validateDirectory } = await import("../../store/files/validate.ts");
  const problems = await validateDirectory(configDir);
  const { slots, groups, counts } = await declared(configDir);
  const isWritable = await access(configDir, constants.W_OK).then(
    () => true,
    () => false,
  );
  const who = isWritable ? "" : "; the API may not write there";
  const more = problems.length - shownProblems;
  return {
    slots,
    findings: [
      ok("configuration", `${configDir}: ${counts}${who}`),
      ...(problems.length === 0 ? [ok("manifests", "valid")] : []),
      ...problems
        .slice(0, shownProblems)
        .map((problem) => fail("manifests", diagnosticLine(problem), "correct it; the last good spec runs meanwhile")),
      ...[...slots].flatMap(([name, spec]) => secretFindings(name, spec)),
      ...groupFindings(slots, groups),
      ...(more > 0 ? [fail("manifests", `${more} more`, "`berth config validate` tells all")] : []),
    ],
  };
}

/** Where slots are custom resources: the API server and the operator judge them, and each says so itself. */
export function clusterFindings(): { readonly findings: readonly Finding[]; readonly slots: DeclaredSlots } {
  const text = "custom resources of the namespace (SVC_STORE=kubernetes): `kubectl get slots` tells how they are";
  return { findings: [ok("configuration", text)], slots: new Map() };
}

/** Every reader of the file sees the secret, and so does every administrator of the API. */
export function secretFindings(name: string, spec: SlotSpec): Finding[] {
  const places = literalSecrets(spec);
  if (places.length === 0) return [];
  const next = "put it into a file of mode 0600 and name that with env.NAME.valueFrom.file (docs/slots.md)";
  return [warn("manifests", `slot ${name} holds a text that looks like a secret: ${places.join(", ")}`, next)];
}

/** Groups that slots name and no file declares: a typing error would leave a budget without effect. */
export function groupFindings(slots: DeclaredSlots, groups: ReadonlySet<string>): Finding[] {
  const named = new Map<string, string[]>();
  for (const [name, { group }] of slots)
    if (group !== undefined && !groups.has(group)) named.set(group, [...(named.get(group) ?? []), name]);
  return [...named].map(([group, members]) => {
    const which =
      members.length === 1 ? `slot ${members.join("")} names` : `slots ${members.toSorted().join(", ")} name`;
    const next = `declare it in groups/${group}.toml (docs/groups.md), or correct the name`;
    const effect = `${members.length === 1 ? "it has" : "they have"} no budget but the memory of the device`;
    return warn(
      "manifests",
      `${which} group ${group}, which no file declares: ${effect}${didYouMean(nearest(group, groups))}`,
      next,
    );
  });
}

/** Reads the resources that manifests of a directory declare, as far as they can be read. */
export async function declared(configDir: string): Promise<Declared> {
  const { listManifests } = await import("../../store/files/listing.ts");
  const { manifestLimitBytes } = await import("../../store/files/manifest-limit.ts");
  const { directoryOfKind } = await import("../../api/names.ts");
  const { readManifests } = await import("../../store/files/manifest.ts");
  const { files } = await listManifests(configDir, Object.values(directoryOfKind));
  const slots = new Map<string, SlotSpec>();
  const groupNames = new Set<string>();
  const counts = { Slot: 0, Model: 0, Upstream: 0, SlotGroup: 0 };
  for (const file of files.keys()) {
    // The validation has reported unreadable files.
    const text = await readSmallText(file, manifestLimitBytes).catch(() => undefined);
    for (const { kind, name, spec, isForeign } of text === undefined ? [] : readManifests(file, text)) {
      if (isForeign === true) continue;
      counts[kind] += 1;
      if (kind === "SlotGroup") groupNames.add(name);
      if (spec !== undefined && "aliases" in spec) slots.set(name, spec);
    }
  }
  const { Slot: slotCount, Model: models, Upstream: upstreams, SlotGroup: groups } = counts;
  const more = groups === 0 ? "" : `, groups ${groups}`;
  return { slots, groups: groupNames, counts: `slots ${slotCount}, models ${models}, upstreams ${upstreams}${more}` };
}
