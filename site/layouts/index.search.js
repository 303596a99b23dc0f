{{- $pages := slice -}}
{{- range site.RegularPages -}}
  {{- $pages = $pages | append (dict "id" .RelPermalink "title" (partial "title.html" .) "text" (.Plain | htmlUnescape)) -}}
{{- end -}}
window.searchPages = {{ $pages | jsonify }};
