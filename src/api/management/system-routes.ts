import { z } from "zod";
import { healthSchema } from "./health-view.ts";
import { waitQuery } from "./parts.ts";
import type { RouteShape } from "./shape.ts";
import * as view from "./views.ts";

/** The service itself. */
export const systemRoutes = {
  hardware: {
    method: "GET",
    path: "/api/hardware",
    scope: "read",
    tag: "system",
    summary: "The operator's machine, and the suggested backend per engine, with evidence",
    answers: { 200: view.hardwareViewSchema },
  },
  probeHardware: {
    method: "POST",
    path: "/api/hardware/probe",
    scope: "admin",
    tag: "system",
    summary: "Has the operator probe the machine again; with `wait`, answers after that",
    query: waitQuery,
    answers: { 202: view.hardwareViewSchema },
  },
  status: {
    method: "GET",
    path: "/api/status",
    scope: "public",
    tag: "system",
    summary: "Slots and their states: no models, paths or hosts",
    answers: { 200: view.statusSchema },
  },
  health: {
    method: "GET",
    path: "/api/health/system",
    scope: "public",
    tag: "system",
    summary: "Whether anything is degraded; always 200",
    answers: { 200: healthSchema },
  },
  metrics: {
    method: "GET",
    path: "/api/metrics",
    scope: "public",
    tag: "system",
    summary: "Prometheus metrics of this gateway, also at /metrics",
    answers: { 200: { type: "text/plain" } },
  },
  engineMetrics: {
    method: "GET",
    path: "/api/metrics/engines",
    scope: "read",
    tag: "system",
    summary: "The engines' own metrics with the labels slot, role and ordinal, asked of them now",
    answers: { 200: { type: "text/plain" } },
  },
  targets: {
    method: "GET",
    path: "/api/monitoring/targets",
    scope: "read",
    tag: "system",
    summary:
      "The pages of metrics, for Prometheus' http_sd_configs; the operator's only on this machine's own addresses",
    answers: { 200: view.targetsSchema },
  },
  features: {
    method: "GET",
    path: "/api/features",
    scope: "public",
    tag: "system",
    summary: "The features of this version",
    answers: { 200: view.featuresSchema },
  },
  installState: {
    method: "GET",
    path: "/api/install/state",
    scope: "public",
    tag: "system",
    summary: "How far a new installation is",
    answers: { 200: view.installStateSchema },
  },
  completeInstall: {
    method: "POST",
    path: "/api/install/complete",
    scope: "public",
    tag: "system",
    summary: "Ends the first run; changes nothing else",
    answers: { 200: view.installStateSchema },
  },
  urls: {
    method: "GET",
    path: "/api/config/urls",
    scope: "public",
    tag: "system",
    summary: "Where things are, as seen by the caller",
    answers: { 200: view.urlsSchema },
  },
  openapi: {
    method: "GET",
    path: "/api/openapi.json",
    scope: "read",
    tag: "system",
    summary: "This document",
    answers: { 200: z.looseObject({ openapi: z.string() }) },
  },
} as const satisfies Record<string, RouteShape>;
