import { dirname, resolve } from "node:path";
import { homedir } from "node:os";
import { isRecord } from "../../lib/record.ts";
import { containerSlot, type ContainerLine, type Volume } from "./container-line.ts";
import { insidePortOf, pairsOf, sizeBytes, volumeOf } from "./docker-run.ts";
import { Omissions, type Imported, type ImportedSlot } from "./imported.ts";
import { carried, readElsewhere, settingsOf, type Mapping } from "./mapping.ts";
import { mapAt, SourceFault, parsedSource, sourceText, textsOf } from "./source-text.ts";
import { wordsOf } from "./words.ts";

/** The fields of a service. */
const mapping: Mapping = {
  // Berth decides these itself, or a slot does not need them.
  ...readElsewhere(
    "image command entrypoint volumes environment ports devices gpus deploy runtime shm_size container_name restart healthcheck depends_on networks labels logging init expose hostname stop_grace_period pull_policy tty stdin_open profiles",
  ),
  env_file: "its variables are not read: write those that the engine needs into env",
  ipc: "shmSizeBytes gives a container shared memory of its own",
  build: "an image that is built here has to be named with image",
  privileged: "Berth gives containers no such rights",
  cap_add: "Berth gives containers no such rights",
  security_opt: "Berth gives containers no such rights",
  user: "a container runs as its image's user",
};

/**
 * Reads the model servers of a Compose file (the Compose Specification, "Services"). `${NAME:-default}` is taken from this
 * command's environment. Throws CommandError with file and line where the file is no such file.
 */
export async function importCompose(file: string, env: NodeJS.ProcessEnv): Promise<Imported> {
  const source = await parsedSource(file, await sourceText(file));
  const services = source.value["services"];
  if (!isRecord(services)) throw new SourceFault({ file, line: 1 }, "it is no Compose file: it has no map 'services'");
  const omissions = new Omissions();
  const slots: ImportedSlot[] = [];
  for (const [service, raw] of Object.entries(services)) {
    const name = `services.${service}`;
    const place = source.at("services", service);
    const notes = new Set<string>();
    const fields = interpolated(raw, env, notes);
    if (!isRecord(fields) || typeof fields["image"] !== "string") {
      omissions.add(place, name, "not carried: it names no image");
      continue;
    }
    const volumes = volumesOf(fields["volumes"], env);
    const context = { omissions, place, name, directory: resolve(dirname(file)) };
    const made = containerSlot(lineOf(fields, volumes), context);
    if (made === undefined) continue;
    for (const note of notes) omissions.add(place, name, note);
    carried(settingsOf(fields, source, "services", service), mapping, {
      omissions,
      otherwise: "a slot has no such setting",
    });
    slots.push({ name: service, place, ...made });
  }
  return { slots, groups: [], omissions: omissions.sorted() };
}

/** All texts with their variables (the Compose Specification, "Interpolation"); `notes` has what was not taken as it is written. */
function interpolated(value: unknown, env: NodeJS.ProcessEnv, notes: Set<string>): unknown {
  if (Array.isArray(value)) return value.map((item) => interpolated(item, env, notes));
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, interpolated(inner, env, notes)]));
  return typeof value === "string" ? filled(value, env, notes) : value;
}

function filled(text: string, env: NodeJS.ProcessEnv, notes: Set<string>): string {
  return text.replaceAll(
    /\$(?:\$|\{(\w+)(?:(:?)([-?+])((?:[^{}]|\{[^{}]*\})*))?\}|(\w+)|\{[^]*)/g,
    (all, braced?: string, colon?: string, operator?: string, word = "", bare?: string) => {
      if (all === "$$") return "$";
      const name = braced ?? bare;
      if (name === undefined) {
        notes.add("a variable is not understood: from there on its text stays as it is written");
        return all;
      }
      const found = colon === ":" ? env[name] || undefined : env[name];
      if (operator === "+") return found === undefined ? "" : filled(word, env, notes);
      if (found === undefined && operator === "-") return filled(word, env, notes);
      if (found === undefined) notes.add(`\${${name}} is not set here, and is taken as empty`);
      return found ?? "";
    },
  );
}

function lineOf(fields: Readonly<Record<string, unknown>>, volumes: readonly Volume[]): ContainerLine {
  const words = (value: unknown): readonly string[] => (typeof value === "string" ? wordsOf(value) : textsOf(value));
  const [port] = (Array.isArray(fields["ports"]) ? fields["ports"] : []).flatMap((each: unknown) =>
    isRecord(each) ? String(each["target"]) : (insidePortOf(String(each)) ?? []),
  );
  return {
    image: String(fields["image"]),
    args: fields["command"] === undefined ? [] : words(fields["command"]),
    entrypoint: fields["entrypoint"] === undefined ? undefined : words(fields["entrypoint"]),
    volumes,
    env: environmentOf(fields["environment"]),
    devices: textsOf(fields["devices"] ?? []).map((device) => device.split(":")[0] ?? ""),
    gpus: gpusOf(fields),
    port,
    shmSizeBytes: sizeBytes(textOf(fields["shm_size"])),
  };
}

/** Empty where it is neither a text nor a number. */
function textOf(value: unknown): string {
  return textsOf(value)[0] ?? "";
}

function environmentOf(value: unknown): ContainerLine["env"] {
  if (!isRecord(value)) return pairsOf(textsOf(value ?? []));
  return Object.entries(value).map(([name, text]) => [name, textsOf(text)[0]] as const);
}

function volumesOf(value: unknown, env: NodeJS.ProcessEnv): readonly Volume[] {
  const home = env["HOME"] || homedir();
  const all: readonly unknown[] = Array.isArray(value) ? value : [];
  return all.flatMap((each) => {
    const volume = isRecord(each)
      ? {
          source: textOf(each["source"]),
          target: textOf(each["target"]),
          readOnly: each["read_only"] === true,
        }
      : volumeOf(String(each));
    return volume === undefined ? [] : [{ ...volume, source: volume.source.replace(/^~(?=\/|$)/, home) }];
  });
}

/** NVIDIA GPUs: `gpus`, a reservation, or the old runtime. */
function gpusOf(fields: Readonly<Record<string, unknown>>): ContainerLine["gpus"] {
  if (fields["gpus"] === "all" || fields["runtime"] === "nvidia") return "all";
  const { devices } = mapAt(fields, "deploy", "resources", "reservations");
  const gpu = (Array.isArray(devices) ? devices : [])
    .filter(isRecord)
    .find(({ driver, capabilities }) => driver === "nvidia" || textsOf(capabilities ?? []).includes("gpu"));
  if (gpu === undefined) return undefined;
  if (Array.isArray(gpu["device_ids"])) return gpu["device_ids"].length;
  return typeof gpu["count"] === "number" ? gpu["count"] : "all";
}
