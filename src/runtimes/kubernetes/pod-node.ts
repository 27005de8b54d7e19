import { isRecord } from "../../lib/record.ts";

type Map = Readonly<Record<string, unknown>>;

const hostnameLabel = "kubernetes.io/hostname";
const required = "requiredDuringSchedulingIgnoredDuringExecution";

/**
 * The Pod on that node alone, beside what its template asks of a node. By the node's name: its label
 * `kubernetes.io/hostname` may have another value. A template that names that label has chosen a node itself.
 */
export function pinned(pod: Map, node: string): Map {
  const { spec } = pod;
  if (!isRecord(spec) || hostnameLabel in map(spec["nodeSelector"])) return pod;
  const affinity = map(spec["affinity"]);
  const ofNodes = map(affinity["nodeAffinity"]);
  const { nodeSelectorTerms: given }: Map = map(ofNodes[required]);
  const terms: readonly unknown[] = Array.isArray(given) && given.length > 0 ? given : [{}];
  const here = { key: "metadata.name", operator: "In", values: [node] };
  // A node must meet one of the terms, and all of that term.
  const nodeSelectorTerms = terms.map((term) => {
    const { matchFields, ...rest } = map(term);
    return { ...rest, matchFields: [...(Array.isArray(matchFields) ? matchFields : []), here] };
  });
  const nodeAffinity = { ...ofNodes, [required]: { nodeSelectorTerms } };
  return { ...pod, spec: { ...spec, affinity: { ...affinity, nodeAffinity } } };
}

function map(value: unknown): Map {
  return isRecord(value) ? value : {};
}
