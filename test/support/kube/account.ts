import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { kubeconfigText, type ApiServer } from "./control-plane.ts";

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[] | undefined;
  readonly verbs: readonly string[];
}

/** The rights that the operator needs for the store, as docs/kubernetes.md states them. */
export const operatorRights: readonly Rule[] = [
  { apiGroups: ["berth.dev"], resources: ["slots"], verbs: ["get", "list", "watch", "patch"] },
  { apiGroups: ["berth.dev"], resources: ["models", "upstreams", "slotgroups"], verbs: ["list", "watch"] },
  {
    apiGroups: ["berth.dev"],
    resources: ["slots/status", "models/status", "upstreams/status", "slotgroups/status"],
    verbs: ["patch"],
  },
  {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "list", "watch", "create", "update", "delete"],
  },
  { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch", "create", "patch"] },
  { apiGroups: [""], resources: ["secrets"], resourceNames: ["berth-bearers"], verbs: ["list", "watch", "patch"] },
  { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
  { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
  { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
];

/** The rights that an operator needs to run engines as Pods. */
export const podRights: readonly Rule[] = [
  { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch", "create", "delete"] },
  { apiGroups: [""], resources: ["pods/log"], verbs: ["get"] },
  { apiGroups: [""], resources: ["secrets"], verbs: ["get", "create", "patch", "delete"] },
];

/** The rights that a gateway needs. */
export const gatewayRights: readonly Rule[] = [
  {
    apiGroups: ["berth.dev"],
    resources: ["slots"],
    verbs: ["get", "list", "watch", "patch", "create", "update", "delete"],
  },
  {
    apiGroups: ["berth.dev"],
    resources: ["models", "upstreams", "slotgroups"],
    verbs: ["get", "create", "update", "delete"],
  },
  {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "list", "watch", "create", "patch", "delete"],
  },
  { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch", "create", "patch"] },
  { apiGroups: [""], resources: ["secrets"], resourceNames: ["berth-bearers"], verbs: ["list", "watch"] },
  {
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: ["berth-tokens"],
    verbs: ["get", "list", "watch", "patch"],
  },
  { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
];

/** The rights that a gateway needs to show the output of Pods. */
export const logRights: readonly Rule[] = [
  { apiGroups: [""], resources: ["pods"], verbs: ["list"] },
  { apiGroups: [""], resources: ["pods/log"], verbs: ["get"] },
];

/** The rights of a process that is both. */
export const storeRights: readonly Rule[] = [...operatorRights, ...gatewayRights];

/** Each right by itself, as `leases.coordination.k8s.io delete` or `secrets/berth-tokens get`. */
export function rightsIn(rules: readonly Rule[]): readonly string[] {
  return rules.flatMap(({ apiGroups: [group = ""], resources, resourceNames = [""], verbs }) =>
    resources.flatMap((resource) =>
      resourceNames.flatMap((name) =>
        verbs.map((verb) => `${resource}${group && `.${group}`}${name && `/${name}`} ${verb}`),
      ),
    ),
  );
}

const verbs: Readonly<Record<string, string>> = { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" };

/**
 * The rights of `granted` that a request needs, from `GET /path?query`; none where no rule of them covers it. Where one for
 * the object's name is granted it is that one, and not the one for all names as well.
 */
export function rightsUsed(request: string, granted: readonly string[]): readonly string[] {
  const [method = "", url = ""] = request.split(" ");
  const { pathname, searchParams } = new URL(url, "https://server");
  const [, api, ...rest] = pathname.split("/");
  const group = api === "apis" ? `.${rest[0]}` : "";
  const [, , , plural = "namespaces", name = "", part] = rest.slice(api === "apis" ? 1 : 0);
  const isRead = method === "GET";
  const readVerb =
    searchParams.get("watch") === "true" ? "watch" : name === "" && plural !== "namespaces" ? "list" : "get";
  const verb = isRead ? readVerb : (verbs[method] ?? "");
  const named = searchParams.get("fieldSelector")?.replace("metadata.name=", "") ?? name;
  const resource = `${plural}${part === undefined ? "" : `/${part}`}${group}`;
  // An applied object that is not there is created, by both rights.
  const both = method === "PATCH" && searchParams.get("force") === "true" && part === undefined ? ["create"] : [];
  return [verb, ...both].flatMap((each) => {
    const right = [`${resource}/${named} ${each}`, `${resource} ${each}`].find((wanted) => granted.includes(wanted));
    return right === undefined ? [] : [right];
  });
}

export interface Account {
  readonly kubeconfig: string;
  readonly token: string;
  readonly namespace: string;
}

/** A service account with these rights, in a namespace of its own unless one is given, and its kubeconfig. */
export async function accountWith(
  plane: ApiServer,
  rules: readonly Rule[],
  { name = "berth", namespace: given }: { readonly name?: string; readonly namespace?: string } = {},
): Promise<Account> {
  const namespace = given ?? (await plane.namespace());
  const role = { apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata: { name }, rules };
  await plane.kubectl(["apply", "-n", namespace, "-f", "-"], JSON.stringify(role));
  await plane.kubectl(["create", "serviceaccount", "-n", namespace, name]);
  const binding = ["create", "rolebinding", "-n", namespace, name, `--role=${name}`];
  await plane.kubectl([...binding, `--serviceaccount=${namespace}:${name}`]);
  const token = (await plane.kubectl(["create", "token", "-n", namespace, name])).trim();
  const kubeconfig = join(plane.directory, `${namespace}-${name}.kubeconfig`);
  await writeFile(kubeconfig, kubeconfigText(plane.url, plane.caFile, token, namespace));
  return { kubeconfig, token, namespace };
}
