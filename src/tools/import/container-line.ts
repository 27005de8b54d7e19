import { resolve } from "node:path";
import { secretName } from "../../api/masked-text.ts";
import type { Backend, SlotCapability } from "../../api/names.ts";
import {
  hasWindowsPath,
  holdsSecret,
  ownKey,
  secretStays,
  withoutSecrets,
  type ImportedSlot,
  type LineContext,
  type SlotFields,
} from "./imported.ts";
import { llamaLine, wordsOfVariable } from "./llama-line.ts";
import { withPort } from "./words.ts";

export interface Volume {
  /** A path of this machine, or the name of a volume of Docker. */
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
}

/** A container of a model server, as `docker run` or a Compose file describes it. */
export interface ContainerLine {
  readonly image: string;
  /** The words after the image. */
  readonly args: readonly string[];
  readonly entrypoint: readonly string[] | undefined;
  readonly volumes: readonly Volume[];
  /** A variable without a value has that of the program's own environment. */
  readonly env: readonly (readonly [name: string, value: string | undefined])[];
  readonly devices: readonly string[];
  /** `all`, or a number of NVIDIA GPUs; undefined: none. */
  readonly gpus: "all" | number | undefined;
  /** The port inside the container. */
  readonly port: string | undefined;
  readonly shmSizeBytes: number | undefined;
}

/** The fields of a slot that runs such a container. */
export type ContainerSlot = Pick<ImportedSlot, "spec" | "weights" | "aliases">;

interface KnownImage {
  readonly name: RegExp;
  readonly capabilities?: readonly SlotCapability[];
  /** The arguments that name the port, where the line has none. */
  readonly portArgs?: readonly string[];
  readonly portEnv?: string;
  readonly probe?: string;
}

/** Model servers by image (their own documentation of image, port and health route). */
const knownImages: readonly KnownImage[] = [
  { name: /vllm/, portArgs: ["--port", "$(PORT)"] },
  { name: /sglang/, portArgs: ["--port", "$(PORT)"] },
  { name: /text-generation-inference/, portArgs: ["--port", "$(PORT)"] },
  { name: /text-embeddings-inference/, capabilities: ["embeddings"], portArgs: ["--port", "$(PORT)"] },
  { name: /speaches|faster-whisper-server/, capabilities: ["transcription"], portEnv: "UVICORN_PORT" },
  { name: /whisper/, capabilities: ["transcription"], probe: "/" },
  { name: /kokoro/, capabilities: ["speech"] },
  { name: /local-?ai/, capabilities: ["chat", "completions", "embeddings"], probe: "/readyz" },
];

/** Berth's port inside every container. */
const insidePort = "8080";

/** The slot of a container; undefined where no slot can be made, with the reason in `omissions`. */
export function containerSlot(line: ContainerLine, context: LineContext): ContainerSlot | undefined {
  const { omissions, place, name } = context;
  const { image } = line;
  if ([image, ...line.args, ...line.volumes.map(({ source }) => source)].some(hasWindowsPath)) {
    omissions.add(place, name, "it names paths of Windows, which this machine has not");
    return undefined;
  }
  if (/llama[.-]?cpp[^/]*$/.test(image) && /server|full|llama-swap/.test(image) && line.entrypoint === undefined)
    return llamaContainer(line, context);
  const known = knownImages.find((each) => each.name.test(image));
  if (known === undefined) {
    const ollama = /(?:^|\/)ollama(?::|$)/.test(image);
    const folder = line.volumes.find(({ target }) => target.endsWith(".ollama"))?.source ?? "DIR";
    const why = ollama
      ? `import Ollama's models with \`berth config import ollama ${folder}\``
      : `${image} is no model server that this command knows: write a slot with engine: custom and image`;
    omissions.add(place, name, why);
    return undefined;
  }
  const words = withPort(withoutSecrets([...(line.entrypoint ?? []), ...line.args], context), line.port);
  const env = Object.fromEntries(
    plainEnv(line, context).map(([key, value]) => [
      key,
      withPort([`${key}=${value}`], line.port)
        .join("")
        .slice(key.length + 1),
    ]),
  );
  const isPortNamed = [...words, ...Object.values(env)].some((text) => text.includes("$(PORT)"));
  const isPortGiven = known.portArgs !== undefined || known.portEnv !== undefined;
  if (!isPortNamed && !isPortGiven && (line.port ?? insidePort) !== insidePort)
    omissions.add(
      place,
      name,
      `the engine must listen on $(PORT), ${insidePort} in a container, and not on ${line.port}`,
    );
  const all = [...words, ...(isPortNamed ? [] : (known.portArgs ?? []))];
  const portEnv = isPortNamed || known.portEnv === undefined ? {} : { [known.portEnv]: "$(PORT)" };
  const isEmbedder = all.some((word) => /^(?:embed|embedding|pooling)$/.test(word));
  const capabilities = known.capabilities ?? (isEmbedder ? (["embeddings"] as const) : undefined);
  return {
    aliases: [],
    spec: {
      engine: "custom",
      image,
      capabilities: capabilities && [...capabilities],
      ...(line.entrypoint === undefined ? { args: all } : { command: all }),
      model: { default: servedName(words) },
      probe: { path: known.probe },
      ...hardware(line, context),
      env: { ...env, ...portEnv },
      mounts: mountsOf(line.volumes, context),
    },
  };
}

/** The name under which such servers know their model. */
function servedName(args: readonly string[]): string | undefined {
  const flags = ["--served-model-name", "--model", "--model-id", "--model-path"];
  const values = flags.map((flag) => {
    const joined = args.find((word) => word.startsWith(`${flag}=`))?.slice(flag.length + 1);
    return joined ?? (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
  });
  return values.find((value) => value !== undefined && /^[A-Za-z0-9][\w.:/@-]*$/.test(value));
}

function llamaContainer(line: ContainerLine, context: LineContext): ContainerSlot | undefined {
  const { omissions, place, name } = context;
  const words = line.args[0] === "--server" || line.args[0] === "-s" ? line.args.slice(1) : line.args;
  const fromEnv = line.env.flatMap(([key, value]) => (value === undefined ? [] : (wordsOfVariable(key, value) ?? [])));
  const found = llamaLine([...fromEnv, ...words], context);
  const path = found.model === undefined ? undefined : hostPath(found.model, line.volumes, context);
  if (path === undefined) {
    const what = found.fetches
      ? "llama-server fetches its model itself"
      : `its model ${found.model ?? ""} is on no directory of this machine`;
    omissions.add(
      place,
      name,
      `${what}: fetch it by \`berth model pull\`, or put the file into the models directory, and write a slot`,
    );
    return undefined;
  }
  const projector = found.projector === undefined ? undefined : hostPath(found.projector, line.volumes, context);
  const used = line.volumes.filter(
    ({ target }) => found.spec.args?.some((word) => word.startsWith(`${target}/`)) === true,
  );
  const env = plainEnv(line, context).filter(
    ([key, value]) => !/^LLAMA_ARG_(?:HOST|PORT)$/.test(key) && wordsOfVariable(key, value) === undefined,
  );
  return {
    aliases: found.aliases,
    weights: { paths: [path], projector },
    spec: {
      image: line.image,
      ...found.spec,
      ...hardware(line, context),
      env: Object.fromEntries(env),
      mounts: mountsOf(used, context),
    },
  };
}

/** The file of this machine that a container sees at that path. */
function hostPath(path: string, volumes: readonly Volume[], { directory }: LineContext): string | undefined {
  for (const { source, target } of volumes) {
    const isBelow = path === target || path.startsWith(target.endsWith("/") ? target : `${target}/`);
    if (isBelow && /^[./~]/.test(source))
      return resolve(directory, source, `.${path.slice(target.length) && `/${path.slice(target.length)}`}`);
  }
  return undefined;
}

function plainEnv(
  { env }: ContainerLine,
  { omissions, place, name }: LineContext,
): readonly (readonly [name: string, value: string])[] {
  return env.flatMap(([key, value]) => {
    const isSecret = value !== "" && (secretName.test(key) || holdsSecret(value ?? ""));
    if (value !== undefined && !isSecret) return [[key, value] as const];
    const why = key.startsWith("LLAMA_") ? ownKey : secretStays;
    omissions.add(place, `${name} env ${key}`, isSecret ? why : "it has no value there: write one into env");
    return [];
  });
}

const backends: readonly (readonly [RegExp, Backend])[] = [
  [/cuda/, "cuda"],
  [/rocm/, "rocm"],
  [/vulkan|intel/, "vulkan"],
];

function hardware(line: ContainerLine, { omissions, place, name }: LineContext): SlotFields {
  const named = backends.find(([pattern]) => pattern.test(line.image))?.[1];
  const backend = named ?? (line.gpus === "all" ? "cuda" : undefined);
  const devices = line.devices.filter((device) => device.startsWith("/dev/"));
  if (devices.length < line.devices.length)
    omissions.add(place, `${name} devices`, "only files below /dev are devices here");
  return {
    backend,
    resources: { gpus: typeof line.gpus === "number" ? line.gpus : undefined },
    // Berth gives these backends their devices.
    devices: backend === "rocm" || backend === "vulkan" ? [] : devices,
    shmSizeBytes: line.shmSizeBytes,
  };
}

function mountsOf(
  volumes: readonly Volume[],
  { omissions, place, name, directory }: LineContext,
): NonNullable<SlotFields["mounts"]> {
  return volumes.flatMap(({ source, target, readOnly }) => {
    if (/^[./]/.test(source))
      return [{ source: resolve(directory, source), target, ...(readOnly ? {} : { readOnly }) }];
    omissions.add(
      place,
      `${name} volume ${source}`,
      "a volume of Docker's own is not carried: what the engine kept there it fetches again; mount a directory of this machine instead",
    );
    return [];
  });
}
