// The page that is photographed: one panel after the other, with Grafana's own components and theme.
import React from "react";
import { createRoot } from "react-dom/client";
import { createTheme, ThemeContext, FieldColorModeId, FieldType, getDisplayProcessor, toDataFrame } from "@grafana/data";
import { BarGauge, BigValue, GlobalStyles, PanelChrome, TimeSeries } from "@grafana/ui";
import { BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, LegendDisplayMode } from "@grafana/schema";

const UNIT = 76; // pixels of a row of the grid, with its gap
const { panels, theme: name, width, from, to } = window.HEADRACE;
const theme = createTheme({ colors: { mode: name } });
const range = { from: at(from), to: at(to), raw: { from: at(from), to: at(to) } };

function at(seconds) {
  const value = seconds * 1000;
  return { valueOf: () => value, isValid: () => true, toDate: () => new Date(value), format: () => String(value), unix: () => seconds };
}

// Fields with their display, as Grafana's own pipeline would leave them.
function frames(panel) {
  const config = { ...panel.fieldConfig.defaults };
  config.color ??= { mode: FieldColorModeId.PaletteClassic };
  return panel.data.map((series, index) => {
    const frame = toDataFrame({
      name: series.name,
      fields: [
        { name: "Time", type: FieldType.time, values: series.times, config: {} },
        { name: series.name, type: FieldType.number, values: series.values, config: { ...config, displayName: series.name, displayNameFromDS: series.name }, labels: series.labels },
      ],
    });
    frame.fields.forEach((field, place) => {
      const known = field.values.filter((value) => value !== null && Number.isFinite(value));
      const [min, max] = [config.min ?? Math.min(...known, 0), config.max ?? Math.max(...known, 0)];
      field.state = { seriesIndex: index, displayName: field.name, origin: { frameIndex: index, fieldIndex: place }, range: { min, max, delta: max - min } };
      field.display = getDisplayProcessor({ field, theme, timeZone: "utc" });
    });
    return frame;
  });
}

const last = (values) => values.filter((value) => value !== null && Number.isFinite(value)).at(-1);

function Drawn({ panel, width, height }) {
  if (panel.type === "table" && panel.rows.length) return <Rows panel={panel} />;
  const data = frames(panel);
  if (data.length === 0) return <div style={{ padding: 12, color: theme.colors.text.secondary }}>No data</div>;
  if (panel.type === "timeseries") {
    // one frame with a field for each series, over the times of all of them
    const times = [...new Set(panel.data.flatMap((one) => one.times))].sort((a, b) => a - b);
    const fields = data.map((frame, index) => {
      const values = new Map(panel.data[index].times.map((time, place) => [time, panel.data[index].values[place]]));
      return { ...frame.fields[1], values: times.map((time) => values.get(time) ?? null) };
    });
    const time = { ...data[0].fields[0], values: times };
    const whole = { ...data[0], name: "", length: times.length, fields: [time, ...fields] };
    const legend = { showLegend: true, displayMode: LegendDisplayMode.List, placement: "bottom", calcs: [], ...panel.options.legend };
    legend.showLegend = legend.showLegend !== false;
    return <TimeSeries frames={[whole]} structureRev={1} timeRange={range} timeZone="utc" width={width} height={height} legend={{ ...legend, displayMode: LegendDisplayMode.List, calcs: [] }} />;
  }
  if (panel.type === "stat") {
    const each = width / data.length;
    return <div style={{ display: "flex" }}>{data.map((frame) => {
      const field = frame.fields[1];
      const value = { ...field.display(last(field.values)), title: data.length > 1 || panel.options.textMode === "name" ? frame.name : undefined };
      const spark = { y: field, x: frame.fields[0] };
      const sparkline = panel.options.graphMode === "area" && frame.length > 1 ? spark : undefined;
      return <BigValue key={frame.name} value={value} width={each} height={height} theme={theme} sparkline={sparkline} graphMode={sparkline ? BigValueGraphMode.Area : BigValueGraphMode.None} colorMode={panel.options.colorMode ?? BigValueColorMode.Value} justifyMode={BigValueJustifyMode.Auto} textMode={panel.options.textMode ?? BigValueTextMode.Auto} />;
    })}</div>;
  }
  if (panel.type === "bargauge") {
    const each = Math.min(44, height / data.length);
    return <div>{data.map((frame) => {
      const field = frame.fields[1];
      const value = { ...field.display(last(field.values)), title: frame.name };
      return <BarGauge key={frame.name} value={value} field={{ ...field.config, min: field.config.min ?? 0, max: field.config.max ?? Math.max(...data.map((one) => last(one.fields[1].values) ?? 0), 1) }} display={field.display} width={width} height={each - 4} theme={theme} orientation="horizontal" displayMode={panel.options.displayMode ?? "gradient"} itemSpacing={8} showUnfilled text={{ titleSize: 13, valueSize: 14 }} />;
    })}</div>;
  }
  return <div>a panel of the kind {panel.type} is not drawn</div>;
}

// A table is a table: what Grafana's own does beside that (sorting, resizing) is of no use in a picture.
function Rows({ panel }) {
  const rows = panel.rows.slice(0, 12);
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((column) => !panel.hidden.includes(column));
  const cell = { textAlign: "left", padding: "4px 10px", borderBottom: `1px solid ${theme.colors.border.weak}`, whiteSpace: "nowrap" };
  return <table style={{ borderCollapse: "collapse", fontSize: 13, width: "100%" }}>
    <thead><tr>{columns.map((column) => <th key={column} style={{ ...cell, color: theme.colors.primary.text }}>{panel.renamed[column] ?? column}</th>)}</tr></thead>
    <tbody>{rows.map((row, index) => <tr key={index}>{columns.map((column) => <td key={column} style={cell}>{row[column] ?? ""}</td>)}</tr>)}</tbody>
  </table>;
}

function Dashboard() {
  const unit = width / 24;
  const bottom = Math.max(...panels.map((panel) => panel.gridPos.y + panel.gridPos.h));
  return <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div id="dashboard" style={{ position: "relative", width, height: bottom * (UNIT / 2), background: theme.colors.background.canvas }}>
      {panels.map((panel) => {
        const place = { left: panel.gridPos.x * unit + 4, top: panel.gridPos.y * (UNIT / 2) + 4, width: panel.gridPos.w * unit - 8, height: panel.gridPos.h * (UNIT / 2) - 8 };
        if (panel.type === "row") return <div key={panel.id} style={{ position: "absolute", ...place, font: `500 16px ${theme.typography.fontFamily}`, color: theme.colors.text.primary, paddingTop: 6 }}>{panel.title}</div>;
        return <div key={panel.id} id={`panel-${panel.id}`} style={{ position: "absolute", ...place }}>
          <PanelChrome title={panel.title} width={place.width} height={place.height}>{(w, h) => <Drawn panel={panel} width={w} height={h} />}</PanelChrome>
        </div>;
      })}
    </div>
  </ThemeContext.Provider>;
}

document.body.style.margin = "0";
document.body.style.background = theme.colors.background.canvas;
createRoot(document.getElementById("root")).render(<Dashboard />);
