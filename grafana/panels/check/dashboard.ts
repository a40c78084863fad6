/**
 * A dashboard's file, by Grafana's own types: `@grafana/schema`, as strict as it can be read.
 *
 * What Grafana leaves open is closed here: each kind of panel has its own options and field settings, and a query is
 * Prometheus's. Grafana gives every option a default, so options may be left out, but none may be made up.
 */

import type {
  AnnotationQuery,
  Dashboard,
  DashboardLink,
  FieldConfig,
  FieldConfigSource,
  GraphFieldConfig,
  Panel,
  RowPanel,
  TableFieldOptions,
  VariableModel,
} from "@grafana/schema";
import type { Options as BarGaugeOptions } from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type { Options as StatOptions } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type { Options as TableOptions } from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type { Options as TimeSeriesOptions } from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** A type as JSON writes it: the members of an enum are plain strings there. */
type Plain<T> = unknown extends T
  ? unknown
  : T extends string
    ? `${T}`
    : T extends number | boolean | null | undefined
      ? T
      : T extends Array<infer Item>
        ? Array<Plain<Item>>
        : { [Key in keyof T]: Plain<T[Key]> };

/** https://grafana.com/docs/grafana/latest/datasources/prometheus/query-editor/ (no type of it is in the schema) */
interface Query {
  refId: string;
  expr: string;
  datasource: { type: "prometheus"; uid: string };
  legendFormat?: string;
  format?: "time_series" | "table" | "heatmap";
  instant?: boolean;
  range?: boolean;
  exemplar?: boolean;
  interval?: string;
  intervalFactor?: number;
  editorMode?: "code" | "builder";
  hide?: boolean;
}

/** What Prometheus adds to an annotation: how its text is made of labels. */
interface Annotation extends Omit<AnnotationQuery, "target"> {
  target: Pick<Query, "refId" | "expr" | "interval">;
  titleFormat?: string;
  textFormat?: string;
  tagKeys?: string;
  useValueForTime?: boolean;
}

interface Fields<Custom> extends Omit<FieldConfigSource, "defaults"> {
  defaults: Omit<FieldConfig, "custom"> & { custom?: Custom };
}

interface Of<Kind extends string, Options, Custom>
  extends Omit<Panel, "type" | "title" | "description" | "gridPos" | "options" | "fieldConfig" | "targets" | "links"> {
  type: Kind;
  title: string;
  description: string;
  gridPos: NonNullable<Panel["gridPos"]>;
  options: Partial<Options>;
  fieldConfig: Fields<Custom>;
  targets: Query[];
  links?: Array<Pick<DashboardLink, "title" | "url" | "targetBlank">>;
}

type Panels =
  | RowPanel
  | Of<"timeseries", TimeSeriesOptions, GraphFieldConfig>
  | Of<"stat", StatOptions, Record<string, never>>
  | Of<"bargauge", BarGaugeOptions, Record<string, never>>
  | Of<"table", TableOptions, Partial<TableFieldOptions>>;

interface Whole extends Omit<Dashboard, "panels" | "annotations" | "templating"> {
  uid: string;
  title: string;
  panels: Panels[];
  annotations?: { list: Annotation[] };
  templating?: {
    list: Array<Omit<VariableModel, "current"> & { current?: VariableModel["current"] | Record<string, never> }>;
  };
}

export type DashboardFile = Plain<Whole>;
