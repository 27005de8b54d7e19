import type { ImportedUpstream, Omissions } from "./imported.ts";
import { expanded, type Macros } from "./llama-swap-macros.ts";
import { carried, readElsewhere, settingsOf, type Mapping } from "./mapping.ts";
import { nameFrom } from "./names.ts";
import { mapAt, textsOf, type SourceDocument } from "./source-text.ts";

interface PeerContext {
  readonly macros: Macros;
  readonly env: NodeJS.ProcessEnv;
  readonly omissions: Omissions;
}

/** The Upstreams of other servers (llama-swap, config.example.yaml, "peers"), to which it sends the paths of clients. */
export function peersOf(source: SourceDocument, { macros, env, omissions }: PeerContext): readonly ImportedUpstream[] {
  return Object.entries(mapAt(source.value, "peers")).map(([name, value]) => {
    const peer = mapAt(value);
    const { proxy, apiKey, models } = peer;
    const [, named] = /^\$\{env\.([A-Za-z_]\w*)\}$/.exec(String(apiKey)) ?? [];
    const variable = named ?? `${nameFrom(name).toUpperCase().replaceAll("-", "_")}_API_KEY`;
    const mapping: Mapping = {
      ...readElsewhere("proxy models"),
      apiKey: `its value is not carried: set it as ${variable} in the environment of the gateway`,
      timeouts: "an Upstream has others: connectSeconds, and timeoutSeconds between parts of an answer",
    };
    const otherwise = "an Upstream has no such setting";
    carried(settingsOf(peer, source, "peers", name), mapping, { omissions, otherwise });
    return {
      name,
      spec: {
        baseUrl: `${expanded(String(proxy), macros, env)?.replace(/\/+$/, "")}/v1`,
        ...(apiKey === undefined ? {} : { auth: { type: "bearer", valueFrom: { env: variable } } }),
        models: textsOf(models ?? []).map((ref) => ({ ref: expanded(ref, macros, env) ?? ref })),
      },
    };
  });
}
