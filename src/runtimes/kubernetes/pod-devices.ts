import type { V1PodResourceClaim } from "@kubernetes/client-node";
import type { Container, PodNeeds } from "../../api/workload.ts";
import type { Written } from "../../kubernetes/written.ts";
import { BadWorkload } from "../start-failure.ts";

/** The resource under which a vendor's device plugin offers whole GPUs. */
const gpuResource: Readonly<Record<string, string>> = { cuda: "nvidia.com/gpu", rocm: "amd.com/gpu" };

export interface PodDevices {
  /** Limits of the container; requests of extended resources equal them by themselves. */
  readonly limits: Readonly<Record<string, string>>;
  /** Requests of memory and processors without a limit, which would itself be the request. */
  readonly requests: Readonly<Record<string, string>>;
  readonly claims: readonly { readonly name: string; readonly request?: string }[];
  /** Claims of the Pod, which its container names. */
  readonly resourceClaims: readonly Written<V1PodResourceClaim>[];
  /** Device files of the node, where no plugin and no claim brings the devices. */
  readonly paths: readonly string[];
}

/** Without a request of processors an engine gets none while another Pod of its node is busy. */
const cpuRequest = "100m";

/**
 * How the engine gets its devices: from a device plugin, by claims, or else as files of the node. Throws BadWorkload
 * where `gpus` says a number and no resource is known for it.
 */
export function devicesOf({ gpus, devices, memoryBytes, cpus, pod }: Container): PodDevices {
  const { extended, claims, backend }: Pick<PodNeeds, "extended" | "claims" | "backend"> = pod ?? {
    extended: {},
    claims: [],
    backend: "cpu",
  };
  const limits: Record<string, string> = {
    ...(memoryBytes === undefined ? {} : { memory: String(memoryBytes) }),
    ...(cpus === undefined ? {} : { cpu: String(cpus) }),
    ...Object.fromEntries(Object.entries(extended).map(([name, count]) => [name, String(count)])),
  };
  const isGivenElsewhere = Object.keys(extended).length > 0 || claims.length > 0;
  const resource = gpuResource[backend];
  if (gpus !== undefined && resource !== undefined && limits[resource] === undefined && !isGivenElsewhere)
    limits[resource] = String(gpus === "all" ? 1 : gpus);
  else if (typeof gpus === "number" && resource === undefined && !isGivenElsewhere)
    throw new BadWorkload(
      `resources.gpus: no device plugin is known for the backend ${backend}: name its resource in resources.extended, ` +
        "such as {gpu.intel.com/xe: 1}",
    );
  const isByPlugin = isGivenElsewhere || (resource !== undefined && limits[resource] !== undefined);
  return {
    limits,
    requests: {
      ...(memoryBytes === undefined && pod?.memoryBytes !== undefined ? { memory: String(pod.memoryBytes) } : {}),
      ...(cpus === undefined ? { cpu: cpuRequest } : {}),
    },
    claims: claims.map(({ name, request }) => ({ name, ...(request === undefined ? {} : { request }) })),
    resourceClaims: claims.map(({ name, resourceClaimName, resourceClaimTemplateName }) => ({
      name,
      ...(resourceClaimName === undefined ? {} : { resourceClaimName }),
      ...(resourceClaimTemplateName === undefined ? {} : { resourceClaimTemplateName }),
    })),
    paths: isByPlugin ? [] : devices,
  };
}
