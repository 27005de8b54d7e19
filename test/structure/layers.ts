import { posix } from "node:path";
import { importsOf, type Import } from "./imports.ts";

interface Layer {
  /** Layers that may be imported by any means, beside the layer itself. */
  readonly layers: readonly string[];
  /** Single modules of other layers. */
  readonly modules?: readonly string[];
  /** Layers that may be imported dynamically, or for types only. */
  readonly dynamic?: readonly string[];
  readonly packages: readonly string[];
  /** Packages of which only the types may be named. */
  readonly types?: readonly string[];
}

/** Who may import whom: docs/architecture.md shows the same table to people. */
export const layers: Readonly<Record<string, Layer>> = {
  api: { layers: [], packages: ["zod"] },
  lib: { layers: [], packages: ["yaml"] },
  "engine-client": { layers: ["lib"], packages: [] },
  kubernetes: { layers: ["lib"], packages: ["yaml"], types: ["@kubernetes/client-node"] },
  store: {
    layers: ["api", "lib", "kubernetes"],
    packages: ["bcrypt", "chokidar", "yaml", "smol-toml", "toml-eslint-parser"],
    types: ["zod", "@kubernetes/client-node"],
  },
  engines: { layers: ["api"], packages: [] },
  models: { layers: ["api", "lib", "engine-client"], packages: [] },
  runtimes: {
    layers: ["api", "lib", "kubernetes"],
    packages: ["dockerode", "zod"],
    types: ["@kubernetes/client-node"],
  },
  hardware: { layers: ["api", "lib"], packages: [] },
  operator: {
    layers: ["api", "lib", "engine-client", "kubernetes", "store", "engines", "models", "runtimes"],
    packages: ["prom-client"],
    types: ["pino"],
  },
  gateway: {
    layers: ["api", "lib", "engine-client", "kubernetes", "store", "engines", "models"],
    modules: ["runtimes/logs/engine-logs.ts"],
    packages: [
      "@fastify/busboy",
      "@opentelemetry/api",
      "@opentelemetry/exporter-trace-otlp-http",
      "@opentelemetry/resources",
      "@opentelemetry/sdk-trace",
      "eventsource-parser",
      "fastify",
      "prom-client",
      "undici",
      "zod",
    ],
    types: ["pino"],
  },
  cli: { layers: ["api"], packages: ["commander", "eventsource-parser", "yaml"] },
  program: {
    layers: ["api", "lib"],
    modules: ["cli/client.ts"],
    dynamic: ["store", "engines", "runtimes", "hardware", "operator", "gateway"],
    packages: ["pino"],
  },
  tools: {
    layers: ["api", "lib", "kubernetes", "program"],
    modules: ["cli/client.ts", "cli/options.ts", "cli/output.ts"],
    dynamic: ["store", "engines", "models", "runtimes", "hardware", "operator", "cli"],
    packages: ["commander", "diff", "undici", "zod"],
  },
  main: {
    layers: ["api", "lib", "kubernetes", "program", "tools"],
    modules: ["cli/client.ts", "cli/commands.ts", "cli/options.ts", "cli/output.ts"],
    dynamic: ["cli"],
    packages: ["commander"],
  },
};

/** Every import that the table forbids, and every import that cannot be read. Keys: paths below `src/`. */
export function lintLayers(sources: ReadonlyMap<string, string>): string[] {
  const problems: string[] = [];
  for (const [file, source] of sources) {
    const own = file.split("/")[0] ?? "";
    const rules = layers[own];
    if (rules === undefined) {
      problems.push(`${file}: ${own} is no layer`);
      continue;
    }
    for (const found of importsOf(source)) {
      const problem = judge(file, own, rules, found, sources);
      if (problem !== undefined) problems.push(`${file}:${found.line}: ${problem}`);
    }
  }
  return problems;
}

function judge(
  file: string,
  own: string,
  rules: Layer,
  found: Import,
  sources: ReadonlyMap<string, string>,
): string | undefined {
  const { specifier, isDynamic, isTypeOnly } = found;
  if (specifier === "?") return "a dynamic import must name its module literally";
  if (specifier.startsWith("node:")) return undefined;
  if (!specifier.startsWith(".")) {
    const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
    if (rules.packages.includes(name)) return undefined;
    if (rules.types?.includes(name) === true) {
      return isTypeOnly ? undefined : `${own} may name the types of ${name} only`;
    }
    return `${own} may not use the package ${name}`;
  }
  const target = posix.join(posix.dirname(file), specifier);
  if (!sources.has(target)) return `${specifier} leads to no module of src`;
  const layer = target.split("/")[0] ?? "";
  if (layer === own || rules.layers.includes(layer) || rules.modules?.includes(target) === true) return undefined;
  if (rules.dynamic?.includes(layer) === true) {
    return isDynamic || isTypeOnly ? undefined : `${own} imports ${layer} dynamically only`;
  }
  return `${own} may not import ${layer}`;
}
