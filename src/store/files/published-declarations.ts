import { basename, dirname, join } from "node:path";
import { resourceKey } from "../../api/resource-status.ts";
import type { PublishedRegistry, PublishedSlot } from "../../api/status.ts";
import { lastSpecOf } from "../judged-spec.ts";
import type { Declaration } from "./manifest.ts";

const nothingElse = { annotations: {}, diagnostics: [] } as const;

/**
 * The declarations that an earlier operator had read from files: they stay in force where a manifest is broken now. The
 * configuration directory may have moved since, so a file is identified by its path within it.
 */
export function declarationsBefore(
  configDir: string,
  slots: readonly PublishedSlot[],
  registry: PublishedRegistry | undefined,
): readonly Declaration[] {
  const moved = (file: string): string => join(configDir, basename(dirname(file)), basename(file));
  const upstreams = new Map(registry?.upstreams.map(({ name, spec }) => [name, spec]));
  return [
    ...slots.flatMap((slot) => {
      const { name, file, labels } = slot;
      const last = lastSpecOf(slot);
      if (file === undefined || last === undefined) return [];
      return { kind: "Slot" as const, name, file: moved(file), ...last, labels, ...nothingElse };
    }),
    ...(registry?.resources ?? []).flatMap((resource) => {
      const { kind, name, file, specHash, model, group } = resource;
      const spec = { Model: model, Upstream: upstreams.get(name), SlotGroup: group }[kind];
      return spec === undefined ? [] : { kind, name, file: moved(file), spec, specHash, labels: {}, ...nothingElse };
    }),
  ].toSorted((a, b) => (resourceKey(a) < resourceKey(b) ? -1 : 1));
}
