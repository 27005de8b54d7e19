import type { ManifestWriterOptions } from "./manifest-writer.ts";
import type { ManifestWriter } from "./writer.ts";

/** The writer of a configuration directory; its parsers of TOML and YAML are loaded for the first use. */
export function lazyManifestWriter(options: ManifestWriterOptions): ManifestWriter {
  let opening: Promise<ManifestWriter> | undefined;
  const open = (): Promise<ManifestWriter> =>
    (opening ??= import("./manifest-writer.ts").then(({ openManifestWriter }) => openManifestWriter(options)));
  return {
    readOnlyReason: async () => await (await open()).readOnlyReason(),
    create: async (kind, name, change) => await (await open()).create(kind, name, change),
    replace: async (kind, name, change) => await (await open()).replace(kind, name, change),
    set: async (kind, name, path, value) => (await open()).set(kind, name, path, value),
    specHash: async (kind, name) => await (await open()).specHash(kind, name),
    remove: async (kind, name, given) => await (await open()).remove(kind, name, given),
  };
}
